#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/fill.h"
#include "kernels/sum_of_squares.h"

// Each kernel against its CPU twin; skipped where there is no GPU.
namespace coeus::kernels {
namespace {

void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
    check(cudaMalloc(&data_, std::max<std::size_t>(1, size_) * sizeof(T)));
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  OnDevice(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }
  T* get() { return static_cast<T*>(data_); }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(CudaKernels, FillGivesTheBitsOfTheCpu) {
  const RandomKey key = make_random_key(11, 0, "w");
  for (std::int64_t first : {std::int64_t{0}, std::int64_t{3}, std::int64_t{1} << 33}) {
    for (std::int64_t count : {1, 5, 1023, 1000001}) {
      std::vector<float> cpu(static_cast<std::size_t>(count));
      OnDevice<float> gpu(cpu);
      fill_normal_cpu(cpu.data(), count, key, first, 0.02);
      fill_normal_cuda(gpu.get(), count, key, first, 0.02, nullptr);
      ASSERT_EQ(gpu.read(), cpu) << first << " " << count;
    }
  }
}

TEST_F(CudaKernels, FillConstantReachesEveryElement) {
  OnDevice<float> gpu(std::vector<float>(100001, 3.0f));
  fill_constant_cuda(gpu.get(), 100000, 1.0f, nullptr);
  std::vector<float> expected(100001, 1.0f);
  expected.back() = 3.0f;
  EXPECT_EQ(gpu.read(), expected);
}

TEST_F(CudaKernels, SumOfSquaresIsThatOfTheCpuAndRepeatsItsBits) {
  for (std::int64_t count : {1, 511, 100003, 5000000}) {
    std::vector<float> x(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    double expected = 1;
    sum_of_squares_cpu(x.data(), count, &expected);
    OnDevice<float> gpu(x);
    OnDevice<double> scratch{std::vector<double>(kSumOfSquaresScratch)};
    OnDevice<double> totals({1.0, 1.0});
    for (int i = 0; i < 2; ++i) {
      sum_of_squares_cuda(gpu.get(), count, scratch.get(), totals.get() + i, nullptr);
    }
    const auto got = totals.read();
    EXPECT_NEAR(got[0], expected, 1e-12 * expected);
    EXPECT_EQ(got[0], got[1]);
  }
}

struct AdamWState {
  std::vector<float> master, grad, exp_avg, exp_avg_sq;
  std::vector<std::uint16_t> bf16;
  explicit AdamWState(std::int64_t size) : bf16(static_cast<std::size_t>(size)) {
    for (std::int64_t i = 0; i < size; ++i) {
      const float x = static_cast<float>(i);
      master.push_back(std::sin(x));
      grad.push_back(std::cos(3 * x) * 0.1f);
      exp_avg.push_back(std::sin(5 * x) * 0.01f);
      exp_avg_sq.push_back(std::fabs(std::sin(7 * x)) * 0.001f);
    }
  }
};

void compare_adamw(const std::vector<std::int64_t>& ends, float apply) {
  const std::int64_t size = ends.back();
  AdamWState cpu(size);
  OnDevice<float> master(cpu.master), grad(cpu.grad), m(cpu.exp_avg), v(cpu.exp_avg_sq);
  OnDevice<std::uint16_t> bf16(cpu.bf16);
  std::vector<float> decay, scale, scalars = {1e-2f, 0.7f, 3, apply};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    decay.push_back(i % 2 == 0 ? 0.1f : 0.0f);
    scale.push_back(i % 3 == 1 ? -1.0f : 1.0f);
  }
  AdamWShard shard{
      .master = cpu.master.data(),
      .grad = cpu.grad.data(),
      .exp_avg = cpu.exp_avg.data(),
      .exp_avg_sq = cpu.exp_avg_sq.data(),
      .bf16 = cpu.bf16.data(),
      .size = size,
      .ranges = {ends.data(), decay.data(), scale.data(), static_cast<std::int64_t>(ends.size())},
      .lr = &scalars[0],
      .clip = &scalars[1],
      .count = &scalars[2],
      .apply = &scalars[3],
      .beta1 = 0.9,
      .beta2 = 0.95,
      .eps = 1e-8};
  adamw_cpu(shard, 0, size);

  OnDevice<std::int64_t> ends_there(ends);
  OnDevice<float> decay_there(decay), scale_there(scale), scalars_there(scalars);
  float* s = scalars_there.get();
  shard.master = master.get(), shard.grad = grad.get();
  shard.exp_avg = m.get(), shard.exp_avg_sq = v.get(), shard.bf16 = bf16.get();
  shard.ranges.ends = ends_there.get();
  shard.ranges.weight_decay = decay_there.get(), shard.ranges.lr_scale = scale_there.get();
  shard.lr = s, shard.clip = s + 1, shard.count = s + 2, shard.apply = s + 3;
  adamw_cuda(shard, nullptr);

  const auto gpu_master = master.read(), gpu_v = v.read();
  const auto gpu_bf16 = bf16.read();
  for (std::size_t i = 0; i < gpu_master.size(); ++i) {
    ASSERT_NEAR(gpu_master[i], cpu.master[i], 1e-6) << i;
    ASSERT_NEAR(gpu_v[i], cpu.exp_avg_sq[i], 1e-8) << i;
    ASSERT_NEAR(gpu_bf16[i], cpu.bf16[i], 1) << i;
  }
}

TEST_F(CudaKernels, AdamWIsThatOfTheCpuOverOddRanges) {
  compare_adamw({1}, 1);
  compare_adamw({100003}, 1);
  compare_adamw({101, 128, 4096, 4097, 9000, 70001}, 1);
}

TEST_F(CudaKernels, AdamWThatIsNotAppliedChangesNothing) {
  compare_adamw({101, 128, 5000}, 0);
}

}  // namespace
}  // namespace coeus::kernels
