# What computes on GPUs, and which programs are linked with it.
#
# The rest of the library calls functions of device/cuda_*.h, kernels/cuda.h and comm/nccl_library.h. Two libraries have
# them: mtl_gpu, where kernels can be compiled, and mtl_no_gpu, whose functions refuse. A program that names neither is
# linked with mtl_gpu, if there is one; with the property MTL_NO_GPU, with mtl_no_gpu. Tests replace some of the files,
# which are therefore compiled alone.
file(GLOB no_gpu_sources CONFIGURE_DEPENDS libcore/device/no_cuda*.cpp)
add_library(mtl_no_gpu STATIC ${no_gpu_sources} kernels/no_cuda.cpp libcore/comm/no_nccl_library.cpp)
target_link_libraries(mtl_no_gpu PUBLIC mtl_engine)
set(gpu_library mtl_no_gpu)

mtl_group_cuda(mtl_cuda_sources)
mtl_cuda_kernels(mtl_cuda ${mtl_cuda_sources})
if(MTL_WITH_CUDA)
  file(GLOB gpu_sources CONFIGURE_DEPENDS libcore/device/*_cuda.cpp)
  list(FILTER gpu_sources EXCLUDE REGEX "/no_cuda")
  if(MTL_NCCL_INCLUDE)
    list(APPEND gpu_sources libcore/comm/nccl_library_cuda.cpp)
  else()
    list(APPEND gpu_sources libcore/comm/no_nccl_library.cpp)
  endif()
  set_source_files_properties(libcore/device/find_device_cuda.cpp PROPERTIES
    COMPILE_DEFINITIONS "MTL_CUDA_ARCHS=\"${MTL_CUDA_ARCHS_TEXT}\"")
  add_library(mtl_gpu STATIC ${gpu_sources} $<TARGET_OBJECTS:mtl_cuda>)
  target_include_directories(mtl_gpu SYSTEM PRIVATE $<$<BOOL:${MTL_NCCL_INCLUDE}>:${MTL_NCCL_INCLUDE}>)
  target_link_libraries(mtl_gpu PUBLIC mtl_engine PRIVATE mtl_cuda_runtime)
  # Libraries are built without waiting for kernels.
  set(takes_gpu $<AND:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>,$<NOT:$<BOOL:$<TARGET_PROPERTY:MTL_NO_GPU>>>>)
  set(gpu_library $<IF:${takes_gpu},mtl_gpu,mtl_no_gpu>)
endif()
target_link_libraries(mtl_device INTERFACE ${gpu_library})

# mtl_add_program(TOOL): a program of the tool's object files, in bin/. If it has kernels, also the target TOOL-cpu: the
# same object files linked without kernels, in cpu/.
function(mtl_add_program tool)
  add_executable(${tool} $<TARGET_OBJECTS:${tool}-objects>)
  target_link_libraries(${tool} PRIVATE mtl_cli ${${tool}_libraries})
  if(MTL_WITH_CUDA)
    add_executable(${tool}-cpu EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${tool}-objects>)
    target_link_libraries(${tool}-cpu PRIVATE mtl_cli ${${tool}_libraries})
    set_target_properties(${tool}-cpu PROPERTIES OUTPUT_NAME ${tool} MTL_NO_GPU ON
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/cpu)
  endif()
endfunction()

# mtl_add_demo_programs(TOOLS...): the target demo-programs, which `make demo` builds, and a file of that name with the
# programs' folder: without kernels where nvcc is the only reason for them, because the machine has no GPU and MTL_CUDA is
# not ON.
function(mtl_add_demo_programs)
  set(folder bin)
  set(programs ${ARGN})
  if(MTL_WITH_CUDA AND NOT MTL_CUDA STREQUAL ON AND NOT machine_architectures)
    set(folder cpu)
    list(TRANSFORM programs APPEND -cpu)
  endif()
  add_custom_target(demo-programs DEPENDS ${programs} ${mtl_man_pages})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/demo-programs CONTENT "${folder}\n")
endfunction()
