#pragma once
#include <coeus/nn/attention.h>

#include <cstdint>

namespace coeus::nn {

// RoPE stretched by YaRN (https://arxiv.org/abs/2309.00071): pairs that turn more than beta_fast
// times in the original context stay, those that turn less than beta_slow times are slowed by
// factor. DeepSeek's growth is g(m) = 0.1·m·ln(factor) + 1: the rotated parts grow by
// g(mscale)/g(mscale_all_dim), or g(1) where one of both is 0, and scores by g(mscale_all_dim)².
struct YarnOptions {
  double factor = 1.0;  // 1: off
  double beta_fast = 32.0, beta_slow = 1.0;
  double mscale = 1.0, mscale_all_dim = 1.0;
  std::int64_t original_max_position_embeddings = 4096;
};

struct MlaOptions {
  std::int64_t q_lora_rank = 0;  // 0: queries are not compressed
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0;  // the second part is rotated
  std::int64_t v_head_dim = 0;
  double rope_theta = 10000.0;
  YarnOptions yarn;
  AttentionMask mask;
  double norm_eps = 1e-6;  // of the latents
  double o_proj_std = 0.02;
};

// Multi-head latent attention: keys and values of all heads come from one latent, and one rotated
// key is shared by all heads. https://arxiv.org/abs/2412.19437. The core is the child named "core";
// its q and k have qk_nope_head_dim + qk_rope_head_dim, its v and out v_head_dim. RoPE turns the
// neighbouring pairs (0, 1), (2, 3) … of the rotated part, as DeepSeek's weights have it.
// Children q_a_proj, q_a_norm, q_b_proj (or q_proj), kv_a_proj, kv_a_norm, kv_b_proj, core, o_proj.
class Mla : public Layer {
 public:
  Mla(std::int64_t dim, std::int64_t num_heads, const MlaOptions& options);

 private:
  Tensor forward(const Tensor& x_BTD, const Batch& batch) override;
  Tensor queries(const Tensor& x_BTD);

  std::int64_t nope_dim_, rope_dim_, v_dim_, kv_lora_rank_;
  double rotation_scale_, score_scale_;
  Tensor inverse_frequencies_;  // [qk_rope_head_dim/2] fp32, moved once to the device of the first
                                // call
  Linear* q_proj_ = nullptr;    // null where queries are compressed, the next three else
  Linear* q_a_proj_ = nullptr;
  RmsNorm* q_a_norm_ = nullptr;
  Linear* q_b_proj_ = nullptr;
  Linear& kv_a_proj_;
  RmsNorm& kv_a_norm_;
  Linear& kv_b_proj_;
  Seam<AttentionCore> core_;
  AttentionMask mask_;
  Linear& o_proj_;
};

}  // namespace coeus::nn
