# The libraries that mtl depends on, each behind a target named for its use. All are Debian 12 packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)

function(mtl_dependency target module)
  pkg_check_modules(${target}_pc REQUIRED IMPORTED_TARGET ${module})
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE PkgConfig::${target}_pc)
endfunction()

mtl_dependency(mtl_hash libxxhash)
mtl_dependency(mtl_crc libdeflate)

# Not through pkg-config, whose macro for parallel document streams would reach every file; nothing here uses them.
find_path(SIMDJSON_INCLUDE_DIR simdjson.h REQUIRED)
find_library(SIMDJSON_LIBRARY simdjson REQUIRED)
add_library(mtl_json INTERFACE)
target_include_directories(mtl_json SYSTEM INTERFACE ${SIMDJSON_INCLUDE_DIR})
target_link_libraries(mtl_json INTERFACE ${SIMDJSON_LIBRARY})

find_package(CLI11 2.1 REQUIRED)
add_library(mtl_command_line INTERFACE)
target_link_libraries(mtl_command_line INTERFACE CLI11::CLI11)

find_path(HIGHWAY_INCLUDE_DIR hwy/highway.h REQUIRED)
find_library(HIGHWAY_LIBRARY hwy REQUIRED)
add_library(mtl_simd INTERFACE)
target_include_directories(mtl_simd SYSTEM INTERFACE ${HIGHWAY_INCLUDE_DIR})
target_link_libraries(mtl_simd INTERFACE ${HIGHWAY_LIBRARY})

find_package(dnnl REQUIRED)
add_library(mtl_gemm_library INTERFACE)
target_link_libraries(mtl_gemm_library INTERFACE DNNL::dnnl)

add_library(mtl_decompression INTERFACE)
foreach(module libzstd liblzma zlib)
  pkg_check_modules(${module}_pc REQUIRED IMPORTED_TARGET ${module})
  target_link_libraries(mtl_decompression INTERFACE PkgConfig::${module}_pc)
endforeach()

find_package(MPI REQUIRED COMPONENTS C)
add_library(mtl_ranks INTERFACE)
target_link_libraries(mtl_ranks INTERFACE MPI::MPI_C)
target_compile_definitions(mtl_ranks INTERFACE OMPI_SKIP_MPICXX)
