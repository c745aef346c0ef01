# The libraries that mtl depends on, each behind a target named for its use. All are Debian 12 packages. The list of
# their versions becomes generated/cli/libraries.inc, which --version --verbose prints.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)

# mtl_version_of(NAME FILE VERSION): adds a row {"zstd", "libzstd.so", "1.5.4"}.
set(mtl_library_versions "")
macro(mtl_version_of name file version)
  string(APPEND mtl_library_versions "{\"${name}\", \"${file}\", \"${version}\"},\n")
endmacro()

macro(mtl_dependency target name module file)
  pkg_check_modules(${target}_pc REQUIRED IMPORTED_TARGET ${module})
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE PkgConfig::${target}_pc)
  mtl_version_of(${name} ${file} ${${target}_pc_VERSION})
endmacro()

find_package(dnnl REQUIRED)
add_library(mtl_gemm_library INTERFACE)
target_link_libraries(mtl_gemm_library INTERFACE DNNL::dnnl)
mtl_version_of(oneDNN libdnnl.so ${dnnl_VERSION})

find_package(MPI REQUIRED COMPONENTS C)
add_library(mtl_ranks INTERFACE)
target_link_libraries(mtl_ranks INTERFACE MPI::MPI_C)
target_compile_definitions(mtl_ranks INTERFACE OMPI_SKIP_MPICXX)
pkg_check_modules(open_mpi QUIET ompi-c)
mtl_version_of("Open MPI" libmpi.so "${open_mpi_VERSION}")

find_path(HIGHWAY_INCLUDE_DIR hwy/highway.h REQUIRED)
find_library(HIGHWAY_LIBRARY hwy REQUIRED)
add_library(mtl_simd INTERFACE)
target_include_directories(mtl_simd SYSTEM INTERFACE ${HIGHWAY_INCLUDE_DIR})
target_link_libraries(mtl_simd INTERFACE ${HIGHWAY_LIBRARY})
pkg_check_modules(highway QUIET libhwy)
mtl_version_of(Highway libhwy.so ${highway_VERSION})

# Not through pkg-config, whose macro for parallel document streams would reach every file; nothing here uses them.
find_path(SIMDJSON_INCLUDE_DIR simdjson.h REQUIRED)
find_library(SIMDJSON_LIBRARY simdjson REQUIRED)
add_library(mtl_json INTERFACE)
target_include_directories(mtl_json SYSTEM INTERFACE ${SIMDJSON_INCLUDE_DIR})
target_link_libraries(mtl_json INTERFACE ${SIMDJSON_LIBRARY})
pkg_check_modules(simdjson QUIET simdjson)
mtl_version_of(simdjson libsimdjson.so ${simdjson_VERSION})

mtl_dependency(mtl_hash xxHash libxxhash libxxhash.so)
mtl_dependency(mtl_crc libdeflate libdeflate libdeflate.so)
mtl_dependency(mtl_zstd zstd libzstd libzstd.so)
mtl_dependency(mtl_xz xz liblzma liblzma.so)
mtl_dependency(mtl_gzip zlib zlib libz.so)
add_library(mtl_decompression INTERFACE)
target_link_libraries(mtl_decompression INTERFACE mtl_zstd mtl_xz mtl_gzip)

find_package(CLI11 2.1 REQUIRED)  # headers
add_library(mtl_command_line INTERFACE)
target_link_libraries(mtl_command_line INTERFACE CLI11::CLI11)

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/cli/libraries.inc CONTENT "${mtl_library_versions}" @ONLY)
