#include "base/error.h"
#include "core/torch.h"
#include "nn/moe/permute.h"
#include "parallel/expert/all_to_all.h"
#include "parallel/expert/expert.h"

namespace coeus::parallel {
namespace {

// Rows that travel, known on every rank for itself. R ranks, L experts on each.
struct Load {
  RowTraffic traffic;
  std::vector<std::int64_t> local;  // [L] rows of each expert here, from all ranks
  Tensor expert_of_row;             // [rows received, 1] int64, on the device
};

class ExpertDispatch : public nn::MoeDispatch {
 public:
  ExpertDispatch(comm::Communicator& ep, std::int64_t num_experts, std::string label)
      : ep_(ep), num_experts_(num_experts), label_(std::move(label)) {
    COEUS_ASSERT(num_experts % ep.size() == 0, "{}: {} experts over {} ranks", label_, num_experts,
                 ep.size());
  }

 private:
  Tensor forward(const Tensor& x_ND, const Tensor& indices_Nk, const Tensor& weights_Nk,
                 const nn::ExpertRows& experts) override {
    const auto by_owner = nn::ops::by_expert(indices_Nk);
    const Load load = exchange_counts(indices_Nk);
    const Tensor received =
        all_to_all_rows(nn::ops::to_experts(x_ND, by_owner), load.traffic, ep_, label_);
    // (source, expert) -> (expert, source): rows of an expert lie in the order of all ranks'
    // tokens.
    const auto regroup = nn::ops::by_expert(load.expert_of_row);
    const Tensor results = experts(nn::ops::to_experts(received, regroup), load.local);
    const Tensor returned = all_to_all_rows(nn::ops::to_experts(results, regroup.inverted()),
                                            load.traffic.reversed(), ep_, label_);
    return nn::ops::combine(returned, weights_Nk, by_owner);
  }

  Load exchange_counts(const Tensor& indices_Nk) {
    at::NoGradGuard no_grad;
    const std::int64_t R = ep_.size(), L = num_experts_ / R;
    const Tensor send_RL =
        nn::ops::tokens_per_expert(indices_Nk.reshape({1, -1}), num_experts_).view({R, L});
    Tensor receive_RL = at::empty_like(send_RL);
    const std::vector<std::int64_t> one_each(static_cast<std::size_t>(R), 1);
    ep_.all_to_all(receive_RL, send_RL, one_each, one_each, {.label = label_}).wait();
    ep_.synchronize({.label = label_});
    const Tensor send = send_RL.cpu(), receive = receive_RL.cpu();
    Load load;
    load.traffic = {to_vector(send.sum(1)), to_vector(receive.sum(1))};
    load.local = to_vector(receive.sum(0));
    load.expert_of_row =
        at::arange(L, indices_Nk.options())
            .repeat({R})
            .repeat_interleave(receive_RL.flatten(), 0, receive.sum().item<std::int64_t>())
            .unsqueeze(1);
    return load;
  }

  static std::vector<std::int64_t> to_vector(const Tensor& counts) {
    const auto* first = counts.const_data_ptr<std::int64_t>();
    return {first, first + counts.numel()};
  }

  comm::Communicator& ep_;
  std::int64_t num_experts_;
  std::string label_;
};

class GuardedDispatch : public nn::MoeDispatch {
 public:
  GuardedDispatch(comm::Communicator& world, std::int64_t num_experts, std::string label)
      : world_(world), local_(num_experts), label_(std::move(label)) {}

 private:
  Tensor forward(const Tensor& x_ND, const Tensor& indices_Nk, const Tensor& weights_Nk,
                 const nn::ExpertRows& experts) override {
    world_.synchronize({.label = label_});
    return static_cast<nn::MoeDispatch&>(local_)(x_ND, indices_Nk, weights_Nk, experts);
  }
  comm::Communicator& world_;
  nn::LocalDispatch local_;
  std::string label_;
};

}  // namespace

std::unique_ptr<nn::MoeDispatch> make_local_dispatch(comm::Communicator& world,
                                                     std::int64_t num_experts, std::string label) {
  return std::make_unique<GuardedDispatch>(world, num_experts, std::move(label));
}

std::unique_ptr<nn::MoeDispatch> make_expert_dispatch(comm::Communicator& ep,
                                                      std::int64_t num_experts, std::string label) {
  return std::make_unique<ExpertDispatch>(ep, num_experts, std::move(label));
}

}  // namespace coeus::parallel
