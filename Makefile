# mtl: `make demo` shows it at work on real text, `make test` checks it. CMake builds into build/PRESET, programs in
# build/PRESET/bin. What is missing is installed with apt (through sudo when not root), after saying so; with
# MTL_NO_INSTALL=1 it is only listed.
PRESET ?= release
PREFIX ?= /usr/local
BUILD  := build/$(PRESET)
BIN    := $(BUILD)/bin
JOBS   ?= $(shell nproc)

.DEFAULT_GOAL := all
.PHONY: all tools deps configure demo test test-all sanitize bench bench-gpu gpu-bundle install format check-format \
  check-language lint clean

all: configure  ## build the programs, tests and man pages
	@ninja -j$(JOBS) -C '$(BUILD)'

tools: configure  ## the programs and man pages alone
	@ninja -j$(JOBS) -C '$(BUILD)' tools

deps:  ## install what the build needs
	@sh cmake/install_dependencies.sh

configure: deps
	@test -f '$(BUILD)/build.ninja' || cmake --preset '$(PRESET)'

demo: tools  ## vocabulary, preprocessing, training, evaluation, generation and conversion on real text
	@$(MAKE) --no-print-directory -C share/demo MTL_BIN='$(CURDIR)/$(BIN)' OUT=../../build/demo

test: all  ## the tests that run on every change, in under 15 minutes
	@ctest --test-dir '$(BUILD)' --output-on-failure -LE long

test-all: all  ## and the long ones, and what `sanitize` runs
	@ctest --test-dir '$(BUILD)' --output-on-failure
	@$(MAKE) --no-print-directory sanitize

sanitize: deps  ## unit tests, ranks and the fuzz targets' corpora under ASan and UBSan, in build/asan
	@test -f build/asan/build.ninja || cmake --preset asan
	@ninja -j$(JOBS) -C build/asan
	@ctest --test-dir build/asan --output-on-failure -L 'unit|mpi'

bench: tools  ## measured figures, compared with the peers that are installed
	@ninja -j$(JOBS) -C '$(BUILD)' mtl_bench_data mtl_bench_text mtl_bench_adamw
	@bash share/bench/run.sh '$(BIN)'

bench-gpu: tools  ## training speed on a GPU, next to PyTorch where it is installed; operators against the GPU's peaks
	@ninja -j$(JOBS) -C '$(BUILD)' mtl_bench_peaks
	@bash share/bench/gpu.sh '$(BIN)' build/bench-gpu

gpu-bundle: deps  ## an archive with the tests for a machine that has a GPU (tests/gpu/README.md), in build/mtl-gpu.tar.xz
	@test -f build/gpu/build.ninja || cmake --preset release -B build/gpu -DMTL_CUDA=ON '-DMTL_CUDA_ARCHS=80;90a;100'
	@ninja -j$(JOBS) -C build/gpu tools mtl_gpu_kernels mtl_gpu_goldens mtl_compare mtl_bench_peaks
	@bash tests/gpu/bundle.sh build/gpu build/mtl-gpu.tar.xz

install: tools  ## programs, man pages and share files, under DESTDIR/PREFIX
	@DESTDIR='$(DESTDIR)' cmake --install '$(BUILD)' --prefix '$(PREFIX)'

format:  ## format the sources as .clang-format says
	@git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format -i

check-format:  ## fail on a source that `make format` would change
	@git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format --dry-run -Werror

check-language:  ## fail on phrases that tests/house/phrases.txt refuses
	@bash tests/house/phrases.sh

lint: SHELL = bash
lint: .SHELLFLAGS = -o pipefail -c
lint: deps check-language  ## check-language, and clang-tidy over the library and the tools: prints nothing without findings
	@test -f build/dev/build.ninja || cmake --preset dev  # it lists every source file alone
	@git ls-files 'libcore/*.cpp' 'kernels/*.cpp' 'apps/*.cpp' | xargs -P$(JOBS) -n4 clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p build/dev 2>&1 | sed '/ warnings\? generated\.$$/d'

clean:
	@rm -rf build
