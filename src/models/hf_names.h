#pragma once
#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace coeus::models {

// A segment and its tensor in the file; each # is a number, the n-th of one that of the other.
struct HfName {
  std::string_view fqn, name;
};

// What every decoder of transformers calls alike.
inline constexpr std::array kHfDecoderNames = {
    HfName{"embed.weight", "model.embed_tokens.weight"},
    HfName{"blocks.#.norm1.weight", "model.layers.#.input_layernorm.weight"},
    HfName{"blocks.#.norm2.weight", "model.layers.#.post_attention_layernorm.weight"},
    HfName{"blocks.#.attention.o_proj.weight", "model.layers.#.self_attn.o_proj.weight"},
    HfName{"norm.weight", "model.norm.weight"},
    HfName{"head.weight", "lm_head.weight"},
};
inline constexpr std::array kHfQkvNames = {
    HfName{"blocks.#.attention.q_proj.weight", "model.layers.#.self_attn.q_proj.weight"},
    HfName{"blocks.#.attention.k_proj.weight", "model.layers.#.self_attn.k_proj.weight"},
    HfName{"blocks.#.attention.v_proj.weight", "model.layers.#.self_attn.v_proj.weight"},
};
inline constexpr std::array kHfMlpNames = {
    HfName{"blocks.#.mlp.gate_proj.weight", "model.layers.#.mlp.gate_proj.weight"},
    HfName{"blocks.#.mlp.up_proj.weight", "model.layers.#.mlp.up_proj.weight"},
    HfName{"blocks.#.mlp.down_proj.weight", "model.layers.#.mlp.down_proj.weight"},
};
// Of Qwen and DeepSeek.
inline constexpr std::array kHfExpertNames = {
    HfName{"blocks.#.moe.router.weight", "model.layers.#.mlp.gate.weight"},
    HfName{"blocks.#.moe.experts.#.gate_proj.weight",
           "model.layers.#.mlp.experts.#.gate_proj.weight"},
    HfName{"blocks.#.moe.experts.#.up_proj.weight", "model.layers.#.mlp.experts.#.up_proj.weight"},
    HfName{"blocks.#.moe.experts.#.down_proj.weight",
           "model.layers.#.mlp.experts.#.down_proj.weight"},
};

// The tensor of a segment (or buffer) of `model`, which only an assertion names: asking for another
// one is a bug.
std::string find_hf_name(const std::string& fqn,
                         std::initializer_list<std::span<const HfName>> tables,
                         std::string_view model);

}  // namespace coeus::models
