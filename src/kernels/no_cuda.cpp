#include "base/error.h"
#include "kernels/adamw.h"
#include "kernels/fill.h"
#include "kernels/sum_of_squares.h"

// Stands in for the .cu files where there is no CUDA compiler.
namespace coeus::kernels {
namespace {
[[noreturn]] void refuse(const char* operation) {
  throw UsageError(fmt::format("kernel {}: this build of Coeus has no CUDA", operation));
}
}  // namespace

void fill_normal_cuda(float*, std::int64_t, const RandomKey&, std::int64_t, double, void*) {
  refuse("fill_normal");
}
void fill_constant_cuda(float*, std::int64_t, float, void*) {
  refuse("fill_constant");
}
void adamw_cuda(const AdamWShard&, void*) {
  refuse("adamw");
}
void sum_of_squares_cuda(const float*, std::int64_t, double*, double*, void*) {
  refuse("sum_of_squares");
}

}  // namespace coeus::kernels
