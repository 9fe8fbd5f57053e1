#include "config/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coeus::config {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The first fault, or "valid".
std::string first_fault(const std::string& text) {
  Report report{.file = "x.yaml"};
  parse_yaml(text, "x.yaml", report);
  return report.faults.empty() ? "valid" : report.faults[0].str();
}

TEST(Yaml, EveryValueKnowsItsPlace) {
  Report report;
  const Value tree = parse_yaml("a: 1\nb:\n  c: [2, \"3\"]\n  d:\n", "x.yaml", report);
  EXPECT_EQ(tree.at_path("a")->origin.str(), "x.yaml:1:4");
  EXPECT_EQ(tree.at_path("b.c.1")->origin.str(), "x.yaml:3:10");
  EXPECT_EQ(tree.at_path("b.c.1")->scalar, "3");
  EXPECT_FALSE(tree.at_path("b.c.1")->plain);
  EXPECT_EQ(tree.at_path("b.d")->origin.str(),
            "x.yaml:4:3");  // an empty value stands where its key does
  EXPECT_EQ(tree.at_path("b.c.2"), nullptr);
  EXPECT_EQ(tree.at_path("a.x"), nullptr);
}

TEST(Yaml, AnEmptyDocumentIsAnEmptyMap) {
  EXPECT_EQ(first_fault(""), "valid");
  EXPECT_EQ(first_fault("# nothing\n"), "valid");
}

TEST(Yaml, ADuplicateKeyIsAFaultAtEveryDepth) {
  EXPECT_EQ(first_fault("a: 1\nb: 2\na: 3\n"),
            "x.yaml:3:1: a: duplicate key, first given at line 1");
  EXPECT_THAT(first_fault("a:\n  - {b: 1, b: 2}\n"),
              StartsWith("x.yaml:2:12: a.0.b: duplicate key"));
}

TEST(Yaml, AliasesAnchorsAndTagsAreRefused) {
  EXPECT_THAT(first_fault("a: &x [1]\nb: *x\n"), StartsWith("x.yaml:1:4: anchors"));
  EXPECT_THAT(first_fault("a: &x {b: *x}\n"), HasSubstr("anchors"));  // a loop
  EXPECT_THAT(first_fault("a: !!binary abc\n"), HasSubstr("tag"));
}

TEST(Yaml, DepthCountAndSizeAreCapped) {
  EXPECT_THAT(first_fault(std::string(33, '[') + std::string(33, ']')),
              HasSubstr("nested deeper than 32"));
  EXPECT_EQ(first_fault(std::string(32, '[') + std::string(32, ']')), "valid");
  std::string many = "a: [";
  for (int i = 0; i < 100001; ++i) many += "1,";
  EXPECT_THAT(first_fault(many + "]"), HasSubstr("more than 100000 values"));
  EXPECT_THAT(first_fault("a: " + std::string(5 << 20, 'x')), HasSubstr("more than 4 MiB"));
}

TEST(Yaml, SyntaxErrorsAndSecondDocumentsAreFaultsWithAPlace) {
  EXPECT_THAT(first_fault("a: [1, 2\n"), StartsWith("x.yaml:"));
  EXPECT_THAT(first_fault("a: 1\n b: 2\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(first_fault("a: 1\n---\nb: 2\n"), HasSubstr("more than one YAML document"));
  EXPECT_THAT(first_fault("? [a, b]\n: 1\n"), HasSubstr("a key must be a plain word"));
}

}  // namespace
}  // namespace coeus::config
