#pragma once
#include <coeus/nn/layers.h>

#include <memory>
#include <string>

namespace coeus::nn {

// h = x + attention(norm1(x)), then h + mlp(norm2(h)), norms before the layers as in
// https://arxiv.org/abs/2002.04745. Children norm1, attention, norm2 and, under the name given, the
// MLP: a layer of either kind.
template <class Mlp>
class PreNormBlock : public Layer {
 public:
  PreNormBlock(std::int64_t dim, double norm_eps, std::unique_ptr<Layer> attention,
               std::string mlp_name, std::unique_ptr<Mlp> mlp)
      : norm1_(child<RmsNorm>("norm1", dim, norm_eps)),
        attention_(adopt("attention", std::move(attention))),
        norm2_(child<RmsNorm>("norm2", dim, norm_eps)),
        mlp_(adopt(std::move(mlp_name), std::move(mlp))) {}

 private:
  Tensor forward(const Tensor& x_BTD, const Batch& batch) override {
    const Tensor h_BTD = x_BTD.add(attention_(norm1_(x_BTD), batch));
    if constexpr (std::is_base_of_v<SimpleLayer, Mlp>) {
      return h_BTD.add(mlp_(norm2_(h_BTD)));
    } else {
      return h_BTD.add(mlp_(norm2_(h_BTD), batch));
    }
  }
  RmsNorm& norm1_;
  Layer& attention_;
  RmsNorm& norm2_;
  Mlp& mlp_;
};

}  // namespace coeus::nn
