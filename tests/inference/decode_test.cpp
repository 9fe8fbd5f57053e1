#include "inference/decode.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/inference/tiny_model.h"

namespace coeus::inference {
namespace {

const std::vector<std::int64_t> kPrompt = {72, 101, 108, 108, 111};

std::vector<std::int64_t> text_of(const GenerateOptions& options) {
  const auto model = make_tiny_model();
  KvCache cache(*model, 64);
  return generate(cache, kPrompt, options, at::kCPU);
}
GenerateOptions with(double temperature, std::uint64_t seed) {
  return {.max_tokens = 20, .sampling = {.temperature = temperature, .seed = seed}};
}

TEST(Decode, CachedLogitsAreThoseOfTheWholeSequence) {
  const auto whole = make_tiny_model(), cached = make_tiny_model();
  const Tensor tokens = at::randint(0, 257, {2, 12}, at::kLong);
  const Tensor expected = full_logits(*whole, tokens);
  KvCache cache(*cached, 12);
  Tensor logits = cache.forward(tokens.narrow(1, 0, 5));
  for (std::int64_t t = 5;; ++t) {
    ASSERT_TRUE(at::allclose(logits, expected.select(1, t - 1), 1e-5, 1e-5)) << t;
    if (t == 12) break;
    logits = cache.forward(tokens.narrow(1, t, 1));
  }
  EXPECT_EQ(cache.length(), 12);
}

TEST(Decode, AClearedCacheStartsAgain) {
  const auto model = make_tiny_model();
  KvCache cache(*model, 16);
  const Tensor first = at::tensor({1, 2, 3}, at::kLong).unsqueeze(0);
  const Tensor expected = cache.forward(first);
  cache.clear();
  cache.forward(at::tensor({9, 9, 9, 9}, at::kLong).unsqueeze(0));
  cache.clear();
  EXPECT_TRUE(at::equal(cache.forward(first), expected));
}

TEST(Decode, ACacheThatIsTooSmallIsOurBug) {
  const auto model = make_tiny_model();
  KvCache cache(*model, 3);
  EXPECT_THROW(cache.forward(at::zeros({1, 4}, at::kLong)), AssertionError);
}

TEST(Decode, GreedyTextIsTheLikeliestTokenOfTheWholeForwardEachTime) {
  const auto model = make_tiny_model();
  std::vector<std::int64_t> tokens = kPrompt;
  for (int i = 0; i < 20; ++i) {
    const Tensor logits = full_logits(*model, at::tensor(tokens, at::kLong).unsqueeze(0));
    tokens.push_back(logits[0][-1].argmax().item<std::int64_t>());
  }
  tokens.erase(tokens.begin(), tokens.begin() + 5);
  EXPECT_EQ(text_of(with(0, 1)), tokens);
}

TEST(Decode, TheSeedDecidesTheTextButNotAGreedyOne) {
  EXPECT_EQ(text_of(with(1, 1)), text_of(with(1, 1)));
  EXPECT_NE(text_of(with(1, 1)), text_of(with(1, 2)));
  EXPECT_EQ(text_of(with(0, 1)), text_of(with(0, 2)));
}

TEST(Decode, TheStopTokenEndsTheTextAndIsNoPartOfIt) {
  const auto whole = text_of(with(1, 1));
  GenerateOptions options = with(1, 1);
  options.stop_token = whole[7];
  const auto first = std::find(whole.begin(), whole.end(), whole[7]);
  EXPECT_EQ(text_of(options), std::vector<std::int64_t>(whole.begin(), first));
}

TEST(Decode, EachTokenIsShownAsItIsDrawn) {
  const auto model = make_tiny_model();
  KvCache cache(*model, 64);
  std::vector<std::int64_t> shown;
  const auto tokens =
      generate(cache, kPrompt, with(1, 3), at::kCPU, [&](std::int64_t t) { shown.push_back(t); });
  EXPECT_EQ(tokens.size(), 20u);
  EXPECT_EQ(shown, tokens);
}

TEST(Decode, TokensBeyondTheVocabularyAreNeverDrawn) {
  GenerateOptions options = with(1, 1);
  options.vocab_size = 5;
  for (std::int64_t token : text_of(options)) EXPECT_LT(token, 5);
}

TEST(Decode, APromptWithoutTokensIsRefused) {
  const auto model = make_tiny_model();
  KvCache cache(*model, 64);
  EXPECT_THROW(generate(cache, {}, {}, at::kCPU), UsageError);
}

}  // namespace
}  // namespace coeus::inference
