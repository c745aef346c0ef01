# `make demo` runs mtl on real text, `make test` tests it. CMake builds into build/PRESET, programs in build/PRESET/bin.
# Missing packages are listed and installed with apt (through sudo if not root); with MTL_NO_INSTALL=1 only listed.
PRESET ?= release
PREFIX ?= /usr/local
BUILD  := build/$(PRESET)
BIN    := $(BUILD)/bin
DEMO   := build/demo
PACKAGE := build/package
JOBS   ?= $(shell nproc)
CONFIGURE ?=  # more arguments for cmake, such as -DMTL_CUDA=OFF
TESTS_AT_ONCE = $$((2 * $(JOBS)))

.DEFAULT_GOAL := all
.PHONY: all tools deps configure demo test test-all sanitize bench bench-gpu gpu-bundle install format check-format \
  lint clean deb tar docs release uninstall

all: configure  ## build the programs, tests and man pages
	@ninja -j$(JOBS) -C '$(BUILD)'

tools: configure  ## build the programs and man pages only
	@ninja -j$(JOBS) -C '$(BUILD)' tools

deps:  ## install what the build needs
	@sh cmake/install_dependencies.sh $(STEPS)

configure: deps
	@test -f '$(BUILD)/build.ninja' || cmake --preset '$(PRESET)' $(CONFIGURE)

demo: configure  ## run the tools on real text, from vocabulary to conversion; builds only these
	@ninja -j$(JOBS) -C '$(BUILD)' demo-programs
	@bin='$(BUILD)'/$$(cat '$(BUILD)/demo-programs') && $(MAKE) --no-print-directory -C share/demo \
	  MTL_BIN='$(CURDIR)'/"$$bin" SHOWN_BIN="$$bin" SHOWN_OUT='$(DEMO)' OUT='$(if $(filter /%,$(DEMO)),,../../)$(DEMO)'

# A cuobjdump for cuda_sass, where kernels are compiled.
CUOBJDUMP = test ! -d '$(BUILD)/CMakeFiles/mtl_cuda.dir' || bash tests/gpu/cuobjdump.sh build/peers

test: all  ## run the tests for every change: 8 minutes on 2 cores, after a build
	@MTL_CUOBJDUMP=$$($(CUOBJDUMP)) ctest -j$(TESTS_AT_ONCE) --test-dir '$(BUILD)' --output-on-failure -LE long

test-all: STEPS = test-all
test-all: all  ## run all tests, including the long ones and `sanitize`
	@MTL_CUOBJDUMP=$$($(CUOBJDUMP)) ctest -j$(TESTS_AT_ONCE) --test-dir '$(BUILD)' --output-on-failure
	@$(MAKE) --no-print-directory sanitize

sanitize: deps  ## run unit tests, ranks and fuzz corpora under ASan and UBSan, in build/asan
	@test -f build/asan/build.ninja || cmake --preset asan
	@ninja -j$(JOBS) -C build/asan
	@ctest -j$(TESTS_AT_ONCE) --test-dir build/asan --output-on-failure -L 'unit|mpi'

bench: tools  ## measure performance, compared with installed peers
	@ninja -j$(JOBS) -C '$(BUILD)' bench-programs
	@bash share/bench/run.sh '$(BIN)'

bench-gpu: tools  ## measure training on a GPU against PyTorch, if installed, and operators against the GPU's peaks
	@ninja -j$(JOBS) -C '$(BUILD)' mtl_bench_peaks
	@bash share/bench/gpu.sh '$(BIN)' build/bench-gpu

# What is carried to other machines has kernels for more GPUs than this one's.
$(PACKAGE)/build.ninja: deps
	@test -f '$@' || cmake --preset release -B '$(PACKAGE)' '-DMTL_CUDA_ARCHS=80;90a;100' $(CONFIGURE)

gpu-bundle: $(PACKAGE)/build.ninja  ## pack the tests for a machine with a GPU (tests/gpu/README.md) into build/mtl-gpu.tar.xz
	@ninja -j$(JOBS) -C '$(PACKAGE)' gpu-programs
	@bash tests/gpu/bundle.sh '$(PACKAGE)' build/mtl-gpu.tar.xz

tar: STEPS = tar
tar: $(PACKAGE)/build.ninja  ## make an archive in build/dist that runs from any folder
	@ninja -j$(JOBS) -C '$(PACKAGE)' packages
	@bash packaging/tar.sh '$(PACKAGE)' build/dist

deb: STEPS = deb
deb: $(PACKAGE)/build.ninja  ## make Debian packages in build/dist: mtl and, where nvcc compiles kernels, mtl-cuda
	@ninja -j$(JOBS) -C '$(PACKAGE)' packages
	@sh packaging/deb.sh '$(PACKAGE)' build/dist

docs: STEPS = docs
docs: configure  ## make the site, static HTML, in build/docs
	@ninja -j$(JOBS) -C '$(BUILD)' man
	@bash packaging/docs.sh '$(BUILD)' build/docs build/site-tools

release: STEPS = deb tar docs
release: deps  ## make a release, `make release VERSION=x.y.z`: changelog, tag, packages, archive and site in build/dist
	@bash packaging/release.sh '$(VERSION)' '$(CONFIGURE)'

install: tools  ## install programs, man pages and share files under DESTDIR/PREFIX
	@DESTDIR='$(DESTDIR)' cmake --install '$(BUILD)' --prefix '$(PREFIX)'
	@sh packaging/installed.sh record '$(DESTDIR)' '$(PREFIX)' '$(BUILD)/install_manifest.txt'

uninstall:  ## remove what `make install` with the same DESTDIR and PREFIX has installed
	@sh packaging/installed.sh remove '$(DESTDIR)' '$(PREFIX)'

format:  ## format the sources with clang-format
	@git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format -i

check-format:  ## fail if `make format` would change a source
	@git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format --dry-run -Werror

lint: SHELL = bash
lint: .SHELLFLAGS = -o pipefail -c
lint: deps  ## run clang-tidy on the library and the tools; prints only findings
	@test -f build/dev/build.ninja || cmake --preset dev  # it lists every source file alone
	@git ls-files 'libcore/*.cpp' 'kernels/*.cpp' 'apps/*.cpp' | xargs -P$(JOBS) -n4 clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-fconstexpr-steps=10000000 -p build/dev 2>&1 | sed '/ warnings\? generated\.$$/d'

clean:
	@rm -rf build
