#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

// Regular expressions as Hugging Face's tokenizers read them (Oniguruma), run by PCRE2's JIT.
namespace coeus::data {

// What one thread needs to match; serves any number of expressions.
class MatchScratch {
 public:
  MatchScratch();
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;
  ~MatchScratch();

 private:
  friend class Regex;
  pcre2_real_match_data_8* data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_;
};

class Regex {
 public:
  struct Range {
    std::size_t begin, end;
  };

  // Throws DataError naming `where` and what in the pattern is not supported.
  Regex(const std::string& pattern, const std::string& where);
  Regex(Regex&&) noexcept = default;

  // The first match that is not empty and begins at `from` or later; `subject` is valid UTF-8.
  std::optional<Range> find(MatchScratch& scratch, std::string_view subject,
                            std::size_t from) const;
  const std::string& pattern() const { return pattern_; }

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string pattern_, where_;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool jit_ = false;
};

// A pattern that matches exactly this text.
std::string quote_pattern(std::string_view text);

}  // namespace coeus::data
