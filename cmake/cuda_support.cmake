# The GPUs and the compilers that kernels are compiled for and with.

# architectures_of_machine(OUT): those of this machine's GPUs that can run the kernels, such as 80;90a.
function(architectures_of_machine out)
  find_program(MTL_NVIDIA_SMI nvidia-smi)
  set(capabilities "")
  if(MTL_NVIDIA_SMI)
    execute_process(COMMAND ${MTL_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE capabilities ERROR_QUIET)
  endif()
  string(REGEX MATCHALL "[0-9]+[.][0-9]+" found "${capabilities}")
  list(TRANSFORM found REPLACE "[.]" "")
  list(FILTER found EXCLUDE REGEX "^[0-7][0-9]$")
  list(TRANSFORM found REPLACE "^9[0-9]$" "90a")
  list(REMOVE_DUPLICATES found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# check_architectures(LIST): stops for those that nvcc would refuse, or compile without what they have.
function(check_architectures list)
  foreach(architecture ${list})
    if(architecture STREQUAL 90)  # the wgmma kernels compile to nothing for it
      message(FATAL_ERROR "CUDA: MTL_CUDA_ARCHS contains 90; write 90a, which has wgmma")
    elseif(architecture MATCHES "^[0-7][0-9]a?$")
      message(FATAL_ERROR "CUDA: MTL_CUDA_ARCHS contains ${architecture}; mtl's kernels need 80 (A100, A10, RTX 30) or newer")
    endif()
  endforeach()
endfunction()

# describe_old_nvcc(NVCC OUT): why mtl cannot use this compiler, or an empty string.
function(describe_old_nvcc nvcc out)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text)
  set(${out} "" PARENT_SCOPE)
  if(text MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_LESS 13)
    set(${out} "${nvcc} is of CUDA ${CMAKE_MATCH_1}, and mtl needs CUDA 13 or newer (MTL_NVCC names another)" PARENT_SCOPE)
  endif()
endfunction()
