# Speeds up a full build. With MTL_FAST_BUILD, which the preset release sets, several sources of a module compile
# together and common headers are precompiled, and in a release only hot code is optimized at -O3. The preset asan sets it,
# too. The presets dev, tsan and fuzz compile every file alone, which finds missing includes and recompiles least after a
# change.
option(MTL_FAST_BUILD "Compile sources together, precompile headers, and optimize a release's cold code less" OFF)
if(MTL_FAST_BUILD AND CMAKE_BUILD_TYPE STREQUAL Release)
  set(mtl_optimize_less TRUE)
endif()
set(mtl_common_headers <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <optional>
    <span> <string> <string_view> <utility> <variant> <vector>)

# Puts a module's sources into groups of neighbours that compile together: of at most mtl_group_bytes, so that no
# compilation is long, and at most 12 files. Or into groups by folder and the first word of their names where `group` is
# BY_NAME: a program links and loads what any file of a group calls, so the programs' own code is grouped by program,
# and comm's by library. A file with SIMD code compiles alone, too, or in a group of mtl_group_simd().
set(mtl_group_bytes 110000)
function(mtl_group_sources group)
  set(number 0)
  set(count 0)
  set(bytes 0)
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} alone REGEX "define MTL_SIMD_FILE" LIMIT_COUNT 1)
    if(alone)
      continue()
    endif()
    if(group STREQUAL BY_NAME)
      string(REGEX MATCH "[a-z]+/[a-z]+[^/]*$" name ${source})
      string(REGEX REPLACE "([a-z]+)/([a-z]+).*" "\\1_\\2" name ${name})
    else()
      get_filename_component(path ${source} ABSOLUTE)
      file(SIZE ${path} size)
      math(EXPR count "${count} + 1")
      math(EXPR bytes "${bytes} + ${size}")
      if(count GREATER 12 OR bytes GREATER mtl_group_bytes)
        math(EXPR number "${number} + 1")
        set(count 1)
        set(bytes ${size})
      endif()
      set(name ${group}_${number})
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name})
  endforeach()
endfunction()

function(mtl_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MTL_FAST_BUILD} UNITY_BUILD_MODE GROUP)
endfunction()

# mtl_include_together(LIST SUFFIX NAME:PATTERN...) replaces the sources in a list by files NAME.SUFFIX that include those
# whose names match PATTERN. For sources that CMake 3.25 cannot group: CUDA, whose headers nvcc reads three times, which
# takes longer than most kernels do; and SIMD code, whose files are read once for every instruction set (base/simd.h).
function(mtl_include_together list suffix)
  if(NOT MTL_FAST_BUILD)
    return()
  endif()
  set(groups "")
  set(sources ${${list}})
  get_filename_component(extension ${suffix} EXT)
  foreach(group IN LISTS ARGN)
    string(REPLACE ":" ";" group ${group})
    list(GET group 0 name)
    list(GET group 1 pattern)
    set(file ${CMAKE_BINARY_DIR}/generated/${name}_${suffix})
    set(members ${sources})
    list(FILTER members INCLUDE REGEX "/[a-z_]*(${pattern})[a-z_]*\\${extension}$")
    list(REMOVE_ITEM sources ${members})
    list(TRANSFORM members REPLACE "(.+)" "#include \"\\1\"\n")
    string(JOIN "" members ${members})
    file(CONFIGURE OUTPUT ${file} @ONLY
      CONTENT "#undef MTL_INCLUDED_TOGETHER\n#define MTL_INCLUDED_TOGETHER \"${file}\"\n${members}")
    list(APPEND groups ${file})
  endforeach()
  set(${list} ${groups} ${sources} PARENT_SCOPE)
endfunction()

# Groups the list's files with SIMD code; the others stay.
function(mtl_group_simd list)
  set(sources "")
  foreach(source IN LISTS ${list})
    file(STRINGS ${source} simd REGEX "define MTL_SIMD_FILE" LIMIT_COUNT 1)
    if(simd)
      list(APPEND sources ${source})
    endif()
  endforeach()
  list(REMOVE_ITEM ${list} ${sources})
  mtl_include_together(sources cpu.cpp attention_backward:attention_cpu_backward attention:attention embedding:embedding
    gemm:gemm norm:layernorm|rmsnorm activation:activation|head others:.*)
  set(${list} ${${list}} ${sources} PARENT_SCOPE)
endfunction()

# Groups the list's .cu files; the others stay.
function(mtl_group_cuda list)
  mtl_include_together(${list} cuda.cu hopper_backward:hopper_backward hopper:hopper tiles_backward:tiles_d
    tiles:tiles attention:attention embedding_gemm:embedding|gemm layernorm_backward:layernorm_cuda_backward
    rmsnorm_backward:rmsnorm_cuda_backward norm:[a-z]norm_cuda heads:head_norm|qk_norm residual:residual others:.*)
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# mtl_precompile(TARGET PRIVATE headers... | REUSE_FROM TARGET); both targets must have the same compile options, but for
# the level of optimization.
function(mtl_precompile target)
  if(NOT MTL_FAST_BUILD)
    return()
  endif()
  target_precompile_headers(${target} ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache asks for it
  endif()
endfunction()

# Optimizes a target at `level` rather than at the -O3 of a release: code that is not hot compiles in three quarters of
# the time.
function(mtl_optimize target level)
  if(mtl_optimize_less)
    target_compile_options(${target} PRIVATE ${level})
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # False below -O3, in the code of std::string and std::variant (GCC PR105329, PR105593); dev has these warnings
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
        -Wno-maybe-uninitialized)
    endif()
  endif()
endfunction()

# Keeps -O3 for hot sources of a target that is optimized less.
function(mtl_keep_optimized)
  if(mtl_optimize_less)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON
      SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# ccache, where it is installed. It caches with a precompiled header only if macros are declared irrelevant.
find_program(MTL_CCACHE ccache)
if(MTL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${MTL_CCACHE})
endif()
