# mtl: `make demo` to see it work, `make test` to check it. Everything is built in build/release by CMake.
.DEFAULT_GOAL := all
all: build/release/build.ninja
	@ninja -C build/release
build/release/build.ninja:
	@cmake --preset release
