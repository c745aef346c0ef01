# Completions of bash, zsh and fish for all programs -> build/completions, below the folders where they are installed.
set(mtl_completions "")
foreach(tool IN LISTS mtl_tools ITEMS mtl-demo)
  set(program $<TARGET_FILE:${tool}>)
  if(NOT TARGET ${tool})
    set(program ${CMAKE_SOURCE_DIR}/apps/${tool})
  endif()
  set(folder ${CMAKE_BINARY_DIR}/completions)
  set(outputs ${folder}/bash-completion/completions/${tool} ${folder}/zsh/site-functions/_${tool}
    ${folder}/fish/vendor_completions.d/${tool}.fish)
  add_custom_command(OUTPUT ${outputs} COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/completions.sh ${program} ${folder}
    DEPENDS ${program} cmake/completions.sh cmake/completions.awk VERBATIM)
  list(APPEND mtl_completions ${outputs})
endforeach()
add_custom_target(completions ALL DEPENDS ${mtl_completions})
