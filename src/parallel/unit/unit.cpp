#include "parallel/unit/unit.h"

#include "base/error.h"

namespace coeus::parallel {
namespace {

at::TensorOptions on(at::Device device, at::ScalarType dtype) {
  return at::TensorOptions().device(device).dtype(dtype);
}

// A tensor whose storage has the size of `elements` and no memory yet.
Tensor null_owner(at::Device device, at::ScalarType dtype, std::int64_t elements) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      static_cast<std::int64_t>(elements * c10::elementSize(dtype)), at::DataPtr(nullptr, device),
      nullptr, false);
  const auto key = device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype));
  t.unsafeGetTensorImpl()->set_sizes_contiguous({elements});
  return t;
}

}  // namespace

Unit::Unit(UnitSpec spec, std::vector<nn::Parameter*> parameters, const UnitOptions& options,
           const UnitGroups& groups, SlotPool& slots)
    : spec_(std::move(spec)),
      options_(options),
      groups_(groups),
      accumulation_(options.gradients_in_forward ? Accumulation::full : options.accumulation),
      reduce_stream_(options.device),
      reduced_(options.device) {
  COEUS_ASSERT(parameters.size() == spec_.parameters.size());
  for (auto& layout : flat_layout(spec_.parameters, groups_.gather->size())) {
    Section section;
    section.layout = std::move(layout);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (spec_.parameters[i].compute == section.layout.compute)
        section.parameters.push_back(parameters[i]);
    }
    section.dtype = section.layout.compute == ComputeType::fp32 ? at::kFloat : options_.compute;
    sections_.push_back(std::move(section));
    plan_section(sections_.back(), slots);
  }
}

void Unit::plan_section(Section& s, SlotPool& slots) {
  const auto elements = s.layout.num_elements;
  s.owner = null_owner(options_.device, s.dtype, elements);
  for (std::size_t i = 0; i < s.parameters.size(); ++i) {
    s.parameters[i]->place(s.owner, s.layout.parameters[i].offset);
    s.parameters[i]->target = std::make_shared<nn::GradTarget>();
  }
  if (sharded() && options_.residency == Residency::resharded) {
    s.slot =
        &slots.assign(spec_.experts ? SlotPool::Purpose::inner_weights : SlotPool::Purpose::weights,
                      s.dtype, elements, 0);
  }
  if (reduces_each_micro_batch()) {
    s.gradient_slot = &slots.assign(
        spec_.experts ? SlotPool::Purpose::inner_gradients : SlotPool::Purpose::gradients,
        at::kFloat, elements, s.layout.shard_elements());
  }
}

void Unit::allocate() {
  for (auto& s : sections_) {
    const auto elements = s.layout.num_elements, part = s.layout.shard_elements();
    const auto rank = groups_.gather->rank();
    if (s.slot == nullptr) {
      s.full = at::zeros({elements}, on(options_.device, s.dtype));
      s.shard = s.full.narrow(0, rank * part, part);
      point_storage(s, s.full);
    } else {
      s.shard = at::zeros({part}, on(options_.device, s.dtype));
    }
    s.master = s.dtype == at::kFloat ? s.shard : at::zeros({part}, on(options_.device, at::kFloat));
    if (s.gradient_slot == nullptr) {
      s.full_gradient = at::zeros({elements}, on(options_.device, at::kFloat));
      s.gradient_shard = s.full_gradient.narrow(0, rank * part, part);
    } else {
      s.gradient_shard = at::zeros({part}, on(options_.device, at::kFloat));
    }
    const Tensor buffer = gradient_buffer(s);
    std::int64_t covered = 0;
    for (std::size_t i = 0; i < s.parameters.size(); ++i) {
      const auto& placed = s.layout.parameters[i];
      if (placed.offset > covered)
        s.paddings.push_back(buffer.narrow(0, covered, placed.offset - covered));
      s.gradient_views.push_back(
          buffer.narrow(0, placed.offset, placed.count).view(s.parameters[i]->sizes()));
      covered = placed.offset + placed.count;
    }
    if (covered < elements) s.paddings.push_back(buffer.narrow(0, covered, elements - covered));
  }
}

std::vector<FlatShard> Unit::shards() {
  std::vector<FlatShard> out;
  for (auto& s : sections_) {
    const auto rank = groups_.gather->rank();
    out.push_back({spec_.name, &s.layout, rank, s.master, s.gradient_shard, s.shard,
                   s.layout.runs(rank), s.layout.counted(rank)});
  }
  return out;
}

std::vector<std::pair<const void*, const void*>> Unit::memory() const {
  std::vector<std::pair<const void*, const void*>> ranges;
  for (const auto& s : sections_) {
    for (const Tensor& t : {s.full, s.shard, s.full_gradient, s.gradient_shard}) {
      if (t.defined())
        ranges.emplace_back(t.data_ptr(), static_cast<const char*>(t.data_ptr()) + t.nbytes());
    }
  }
  return ranges;
}

// --- weights
// -------------------------------------------------------------------------------------------------------------------

void Unit::point_storage(Section& s, const Tensor& buffer) {
  s.owner.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(buffer.data_ptr(), options_.device));
}

void Unit::drop_storage(Section& s) {
  s.owner.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(nullptr, options_.device));
}

void Unit::start_gather(Section& s) {
  if (!sharded()) return;
  if (s.slot == nullptr) {
    if (s.fresh) return;
    s.pending_gather = groups_.gather->all_gather(s.full, s.shard, {.label = spec_.name});
    s.fresh = true;
    return;
  }
  if (s.slot->content == &s) return;
  COEUS_ASSERT(s.slot->holder == nullptr || s.slot->holder == &s,
               "{}: its slot is held by another unit", spec_.name);
  s.slot->content = &s;
  s.pending_gather = groups_.gather->all_gather(s.slot->buffer, s.shard, {.label = spec_.name});
}

void Unit::unshard() {
  if (unsharded_++ > 0) return;
  for (auto& s : sections_) start_gather(s);
  for (auto& s : sections_) {
    s.pending_gather.wait();
    if (s.slot == nullptr) continue;
    s.slot->holder = &s;
    point_storage(s, s.slot->buffer);
  }
}

void Unit::reshard() {
  COEUS_ASSERT(unsharded_ > 0, "{}: resharded more often than unsharded", spec_.name);
  if (--unsharded_ > 0) return;
  for (auto& s : sections_) {
    if (s.slot == nullptr) continue;
    s.slot->holder = nullptr;
    drop_storage(s);
  }
}

void Unit::prefetch() {
  if (unsharded_ > 0 || !sharded()) return;
  for (auto& s : sections_) {
    if (s.slot != nullptr && s.slot->holder != nullptr) return;
  }
  for (auto& s : sections_) start_gather(s);
}

void Unit::mark_stale() {
  for (auto& s : sections_) {
    s.fresh = false;
    if (s.slot != nullptr && s.slot->content == &s) s.slot->content = nullptr;
  }
}

// --- gradients
// -----------------------------------------------------------------------------------------------------------------

void Unit::take_gradient_slot() {
  if (holds_gradient_slot_) return;
  holds_gradient_slot_ = true;
  for (auto& s : sections_) {
    if (s.gradient_slot != nullptr) {
      COEUS_ASSERT(s.gradient_slot->holder == nullptr,
                   "{}: its gradient slot is held by another unit", spec_.name);
      s.gradient_slot->busy->wait();
      s.gradient_slot->holder = &s;
    }
    const bool fresh = !accumulating_;
    if (fresh) {
      for (auto& padding : s.paddings) padding.zero_();
    }
    for (std::size_t i = 0; i < s.parameters.size(); ++i) {
      nn::Parameter& p = *s.parameters[i];
      if (p.source == nn::GradSource::autograd) {
        if (fresh) s.gradient_views[i].zero_();
        p.mutable_grad() = s.gradient_views[i];
        continue;
      }
      p.target->buffer = s.gradient_views[i];
      if (fresh) p.target->next = nn::GradTarget::Write::overwrite;
    }
  }
  accumulating_ = true;
}

void Unit::release_gradient_views() {
  for (auto& s : sections_) {
    for (nn::Parameter* p : s.parameters) {
      p->target->buffer = Tensor();
      if (p->source == nn::GradSource::autograd) p->mutable_grad() = Tensor();
    }
  }
  holds_gradient_slot_ = false;
}

void Unit::begin_step(std::int64_t num_micro_batches) {
  micro_batches_ = num_micro_batches;
  closed_ = reduced_micro_batches_ = 0;
}

void Unit::close_use() {
  COEUS_ASSERT(open_uses_ > 0, "{}: a use was closed that was not open", spec_.name);
  --open_uses_;
  close();
}

void Unit::close_weight() {
  close();
}

void Unit::close() {
  const auto due = options_.uses * (reduces_each_micro_batch() ? 1 : micro_batches_);
  COEUS_ASSERT(closed_ < due, "{}: more gradients than its layers form", spec_.name);
  if (++closed_ == due) reduce();
}

void Unit::reduce() {
  for (auto& s : sections_) {
    for (std::size_t i = 0; i < s.parameters.size(); ++i) {
      nn::Parameter& p = *s.parameters[i];
      if (p.source == nn::GradSource::autograd) continue;
      COEUS_ASSERT(!p.grad().defined(),
                   "{}: a gradient was formed beside its target (a plain op read the weight)",
                   s.layout.parameters[i].fqn);
      if (p.target->next == nn::GradTarget::Write::overwrite) s.gradient_views[i].zero_();
    }
  }
  for (auto& s : sections_) {
    sum_copies(s);
    reduce_section(s);
  }
  release_gradient_views();
  accumulating_ = false;
  closed_ = 0;
  reduced_micro_batches_ = reduces_each_micro_batch() ? reduced_micro_batches_ + 1 : micro_batches_;
}

// In fp32 and in place, before anything leaves the unit.
void Unit::sum_copies(Section& s) {
  const Tensor buffer = gradient_buffer(s);
  for (const auto& range : s.layout.summed_ranges()) {
    groups_.copies.at(range.copies)
        ->all_reduce(buffer.narrow(0, range.begin, range.end - range.begin), comm::ReduceOp::sum,
                     {.label = spec_.name})
        .wait();
  }
}

// Sum over the group into the shard; on the step's last micro-batch also over the replicas. The
// compute stream does not wait.
void Unit::reduce_section(Section& s) {
  const comm::CollectiveOptions options{.label = spec_.name};
  const bool add = s.gradient_slot != nullptr && reduced_micro_batches_ > 0;
  const bool last = !reduces_each_micro_batch() || reduced_micro_batches_ + 1 == micro_batches_;
  const bool replicate = last && groups_.replicate != nullptr && groups_.replicate->size() > 1;
  comm::Work work;
  if (sharded()) {
    const Tensor out =
        add ? s.gradient_slot->scratch.narrow(0, 0, s.layout.shard_elements()) : s.gradient_shard;
    if (add) reduced_.wait();
    work = groups_.reduce->reduce_scatter(out, gradient_buffer(s), comm::ReduceOp::sum, options);
  } else if (replicate) {
    comm::Work all = groups_.replicate->all_reduce(s.gradient_shard, comm::ReduceOp::sum, options);
    core::SideStream::Guard guard(reduce_stream_);
    all.wait();
    reduced_.record();
    return;
  } else {
    return;
  }
  core::SideStream::Guard guard(reduce_stream_);
  work.wait();
  if (add) s.gradient_shard.add_(s.gradient_slot->scratch.narrow(0, 0, s.layout.shard_elements()));
  if (replicate)
    groups_.replicate->all_reduce(s.gradient_shard, comm::ReduceOp::sum, options).wait();
  reduced_.record();
  if (s.gradient_slot != nullptr) {
    s.gradient_slot->busy->record();
    s.gradient_slot->holder = nullptr;
  }
}

void Unit::finish() {
  COEUS_ASSERT(open_uses_ == 0,
               "{}: {} uses are still open: a forward with gradients had no backward", spec_.name,
               open_uses_);
  COEUS_ASSERT(reduced_micro_batches_ == micro_batches_,
               "{}: the gradients of {} of {} micro-batches were reduced", spec_.name,
               reduced_micro_batches_, micro_batches_);
  reduced_.wait();
}

void Unit::end_step() {
  accumulating_ = false;
  closed_ = reduced_micro_batches_ = 0;
  reduced_.clear();
}

void Unit::reset() {
  for (auto& s : sections_) {
    s.pending_gather = comm::Work();
    if (s.slot != nullptr) {
      s.slot->holder = nullptr;
      drop_storage(s);
    }
    if (s.gradient_slot != nullptr) s.gradient_slot->holder = nullptr;
  }
  release_gradient_views();
  unsharded_ = open_uses_ = 0;
  mark_stale();
  for (auto& s : sections_) {
    if (s.slot != nullptr) s.slot->content = nullptr;
  }
  end_step();
}

}  // namespace coeus::parallel
