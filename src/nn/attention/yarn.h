#pragma once
#include <coeus/nn/mla.h>

#include <vector>

namespace coeus::nn {

std::vector<float> yarn_inverse_frequencies(std::int64_t head_dim, double theta,
                                            const YarnOptions& options);
double yarn_rotation_scale(const YarnOptions& options);  // of cos and sin
double yarn_score_scale(const YarnOptions& options);     // of q·k, beside 1/sqrt(head_dim)

}  // namespace coeus::nn
