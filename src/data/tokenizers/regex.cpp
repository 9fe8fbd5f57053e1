#include "data/tokenizers/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "base/error.h"

namespace coeus::data {
namespace {

// Long runs (a megabyte of spaces) must neither fail nor touch the thread's own stack.
constexpr std::size_t kStackStart = 64 << 10, kStackLimit = 256 << 20;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw DataError(where + ": pattern not supported: " + what);
}

// Oniguruma's classes where PCRE2's differ: PCRE2 counts U+180E as a space and no marks as word
// characters.
std::string class_escape(char c, bool in_class, const std::string& where) {
  const std::string word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
  switch (c) {
    case 's':
      return "\\p{White_Space}";
    case 'S':
      return "\\P{White_Space}";
    case 'w':
      return in_class ? word : "[" + word + "]";
    case 'W':
      if (in_class) refuse(where, "\\W inside a class");
      return "[^" + word + "]";
    case 'h':
    case 'H':
    case 'b':
    case 'B':
    case 'R':
    case 'X':
      refuse(where, std::string("\\") + c + " means different things to different engines");
    default:
      return std::string("\\") + c;
  }
}

std::string translate(std::string_view pattern, const std::string& where) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      out += class_escape(pattern[++i], in_class, where);
    } else if (in_class && (c == '[' || pattern.substr(i, 2) == "&&")) {
      refuse(where, "a class inside a class, or &&");
    } else {
      const bool opens = c == '[' && !in_class;
      if (opens) {
        in_class = true;
      } else if (c == ']' && in_class) {
        in_class = false;
      }
      out += c;
      if (opens && pattern.substr(i + 1, 1) == "^") {
        out += '^';
        ++i;
      }
    }
  }
  return out;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <class T>
T* or_throw(T* handle) {
  if (handle == nullptr) throw std::bad_alloc();
  return handle;
}

}  // namespace

MatchScratch::MatchScratch()
    : data_(or_throw(pcre2_match_data_create(1, nullptr))),
      context_(or_throw(pcre2_match_context_create(nullptr))),
      stack_(pcre2_jit_stack_create(kStackStart, kStackLimit, nullptr)) {
  pcre2_set_match_limit(context_, UINT32_MAX);
  pcre2_set_depth_limit(context_, UINT32_MAX);
  pcre2_set_heap_limit(context_, UINT32_MAX);
  if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
}
MatchScratch::~MatchScratch() {
  if (stack_ != nullptr) pcre2_jit_stack_free(stack_);
  pcre2_match_context_free(context_);
  pcre2_match_data_free(data_);
}

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Regex::Regex(const std::string& pattern, const std::string& where)
    : pattern_(pattern), where_(where) {
  const std::string translated = translate(pattern, where);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr));
  if (!code_) refuse(where, fmt::format("{} at byte {}", message_of(error), at));
  jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

std::optional<Regex::Range> Regex::find(MatchScratch& scratch, std::string_view subject,
                                        std::size_t from) const {
  const auto* text = reinterpret_cast<PCRE2_SPTR>(subject.data());
  const std::uint32_t options = PCRE2_NOTEMPTY | (jit_ ? 0 : PCRE2_NO_UTF_CHECK);
  const auto match = jit_ ? pcre2_jit_match : pcre2_match;
  const int result =
      match(code_.get(), text, subject.size(), from, options, scratch.data_, scratch.context_);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) throw DataError(where_ + ": pattern failed on a text: " + message_of(result));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch.data_);
  return Range{ends[0], ends[1]};
}

std::string quote_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool special = std::string_view("\\^$.|?*+()[]{}/-#").find(c) != std::string_view::npos;
    if (special) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace coeus::data
