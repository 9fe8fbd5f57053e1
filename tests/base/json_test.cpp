#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coeus {
namespace {

using testing::HasSubstr;

std::string fault_of(const std::string& text) {
  std::optional<std::string> fault;
  parse_json(text, fault);
  return fault.value_or("none");
}

TEST(Json, KeepsTheOrderOfKeysAndAllKindsOfValues) {
  const std::string text = R"({"z":1,"a":[true,null,-2,1.5,"x"],"m":{"b":{},"a":[]}})";
  EXPECT_EQ(parse_json(text, std::string("here")).dump(), text);
}

TEST(Json, RefusesADuplicateKeyAtAnyDepth) {
  EXPECT_EQ(fault_of(R"({"a":{"k":1,"j":2,"k":3}})"), "duplicate key 'k'");
  EXPECT_EQ(fault_of(R"([{"k":1},{"k":1}])"), "none");
}

TEST(Json, RefusesDeepNestingInsteadOfExhaustingTheStack) {
  EXPECT_THAT(fault_of(std::string(1000000, '[')), HasSubstr("nested deeper"));
  EXPECT_EQ(fault_of(std::string(64, '[') + std::string(64, ']')), "none");
}

TEST(Json, RefusesTruncatedTextTrailingTextAndBadUtf8) {
  for (const char* text : {"", "{\"a\":", "{} x", "\"\xff\"", "{'a':1}", "[1,]", "nul"}) {
    EXPECT_THAT(fault_of(text), HasSubstr("not valid JSON")) << text;
  }
}

TEST(Json, TheErrorIsOfTheCallersKindAndNamesThePlace) {
  try {
    parse_json<CheckpointError>("{", "model.json");
    FAIL();
  } catch (const CheckpointError& e) {
    EXPECT_THAT(e.what(), HasSubstr("model.json: not valid JSON at byte"));
  }
}

TEST(Json, AVocabularyOfAHundredThousandKeysIsReadInOnePass) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) {
    text += (i ? ",\"token" : "\"token") + std::to_string(i) + "\":" + std::to_string(i);
  }
  const Json json = parse_json(text + "}", std::string("vocabulary"));
  EXPECT_EQ(json.size(), 100000u);
}

}  // namespace
}  // namespace coeus
