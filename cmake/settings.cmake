# How everything native is compiled: for the whole build, and for a folder that is configured alone.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)

# Every target of ours is compiled with these warnings; nanobind's own sources are not. They are errors where we work: other compilers warn of other things.
option(FIKIT_WARNINGS_ARE_ERRORS "What the compiler warns of ends the build" OFF)
set(FIKIT_WARNINGS -Wall -Wextra)
if(FIKIT_WARNINGS_ARE_ERRORS)
  list(APPEND FIKIT_WARNINGS -Werror)
endif()
add_library(fikit_warnings INTERFACE)
target_compile_options(fikit_warnings INTERFACE ${FIKIT_WARNINGS})

# Where the wheel keeps libraries that are not Python modules: fikitd/native/ beside fikitd/_core.
set(FIKIT_NATIVE_DIR fikitd/native)
