#include <coeus/nn/parameter.h>

#include "base/error.h"
#include "core/torch.h"

namespace coeus::nn {
namespace {

// A tensor of the given sizes whose storage has its full size and no memory.
Tensor over_null_storage(at::IntArrayRef sizes) {
  auto numel = c10::multiply_integers(sizes);
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<std::int64_t>(numel * sizeof(float)),
      at::DataPtr(nullptr, at::Device(at::kCPU)), nullptr, false);
  Tensor t = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                      c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                      caffe2::TypeMeta::Make<float>());
  t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return t;
}

}  // namespace

Tensor& GradTarget::begin_write(Write& how) {
  COEUS_ASSERT(buffer.defined(),
               "a weight gradient was formed while its unit holds no gradient slot");
  how = next;
  next = Write::add;
  return buffer;
}

void GradTarget::accumulate(const Tensor& gradient) {
  Write how;
  Tensor& into = begin_write(how);
  if (how == Write::overwrite) {
    into.copy_(gradient);
  } else {
    into.add_(gradient);
  }
}

void GradTarget::accumulate_outer(const Tensor& a_NO, const Tensor& b_NI) {
  Write how;
  Tensor& into = begin_write(how);
  const double beta = how == Write::add ? 1.0 : 0.0;
  if (a_NO.scalar_type() == at::kFloat) {
    at::addmm_out(into, into, a_NO.t(), b_NI, beta, 1.0);
  } else if (a_NO.is_cuda()) {
    at::addmm_out(into, into, a_NO.t(), b_NI, at::kFloat, beta, 1.0);
  } else {
    at::addmm_out(into, into, a_NO.to(at::kFloat).t(), b_NI.to(at::kFloat), beta, 1.0);
  }
}

Parameter::Parameter(std::vector<std::int64_t> shape_, std::vector<Segment> segments_,
                     ComputeType compute_, GradSource source_)
    : Tensor(over_null_storage(shape_)),
      shape(std::move(shape_)),
      segments(std::move(segments_)),
      compute(compute_),
      source(source_) {
  requires_grad_();
}

void Parameter::place(const Tensor& storage_owner, std::int64_t offset) {
  at::NoGradGuard no_grad;
  Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage_owner.storage()), storage_owner.key_set(), storage_owner.dtype());
  view.unsafeGetTensorImpl()->set_sizes_contiguous(sizes());
  view.unsafeGetTensorImpl()->set_storage_offset(offset);
  set_data(view);
}

void Parameter::cut(std::vector<std::int64_t> local_shape) {
  at::NoGradGuard no_grad;
  shape = std::move(local_shape);
  set_data(over_null_storage(shape));
}

void Parameter::tie_to(Parameter& target_parameter) {
  COEUS_ASSERT(shape == target_parameter.shape, "tied weights of different shapes");
  static_cast<Tensor&>(*this) = static_cast<Tensor&>(target_parameter);
  segments = target_parameter.segments;
  source = target_parameter.source;
  tied_to = &target_parameter;
}

void Buffer::allocate(at::Device device) {
  static_cast<Tensor&>(*this) =
      at::full(segment.shape, segment.init.kind == InitKind::ones ? 1.0 : 0.0,
               at::TensorOptions().device(device).dtype(at::kFloat));
}

}  // namespace coeus::nn
