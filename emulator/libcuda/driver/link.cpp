// libcuda.so, for programs that dlopen() this name: nothing but a dependency on libcuda.so.1, so that a process which
// uses both names has one driver in it. A symbolic link would do, but wheels cannot hold one and a copy would be a
// second driver.
namespace {
[[maybe_unused]] constexpr int kNothing = 0;
}
