#include "config/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace coeus::config {
namespace {

using testing::HasSubstr;

class Tree : public testing::Test {
 protected:
  Value load(const std::string& text) { return load_tree({"main.yaml", text}, options_, report_); }
  void override(Value& tree, const std::string& text) {
    apply_override(tree, text, options_, report_);
  }
  std::string text_at(const Value& tree, const std::string& path) {
    const Value* value = tree.at_path(path);
    return value ? print_inline(*value) : "absent";
  }
  std::string fault() { return report_.faults.empty() ? "none" : report_.faults[0].str(); }

  std::map<std::string, std::string> files_;
  TreeOptions options_{.find =
                           [this](const std::string& name, const std::string&) {
                             if (!files_.contains(name)) throw ConfigError("no file " + name);
                             return Source{name, files_.at(name)};
                           },
                       .exclusive = {{"t.steps", "t.tokens"}}};
  Report report_{.file = "main.yaml"};
};

TEST_F(Tree, ABaseIsMergedByMapAndReplacedByList) {
  files_["b.yaml"] = "m: {x: 1, y: 2}\nl: [1, 2, 3]\n";
  const Value tree = load("base: b.yaml\nm: {y: 5, z: 6}\nl: [9]\n");
  EXPECT_EQ(text_at(tree, "m"), "{x: 1, y: 5, z: 6}");
  EXPECT_EQ(text_at(tree, "l"), "[9]");
  EXPECT_EQ(text_at(tree, "base"), "absent");
  EXPECT_EQ(tree.at_path("m.x")->origin.str(), "b.yaml:1:8");
  EXPECT_EQ(fault(), "none");
}

TEST_F(Tree, NullTakesBackWhatTheBaseSaid) {
  files_["b.yaml"] = "m: {x: 1}\n";
  EXPECT_EQ(text_at(load("base: b.yaml\nm: {x: null}\n"), "m.x"), "null");
}

TEST_F(Tree, ABaseThatInheritsFromItselfIsRefused) {
  files_["b.yaml"] = "base: main.yaml\n";
  files_["main.yaml"] = "base: b.yaml\n";
  load("base: b.yaml\n");
  EXPECT_EQ(fault(), "b.yaml:1:7: base: main.yaml inherits from itself");
}

TEST_F(Tree, AMissingBaseIsAFaultAtItsName) {
  load("a: 1\nbase: absent.yaml\n");
  EXPECT_EQ(fault(), "main.yaml:2:7: base: no file absent.yaml");
}

TEST_F(Tree, OverridesSetKeysItemsAndWholeValues) {
  Value tree = load("m: {x: 1}\nl: [{p: a}, {p: b}]\n");
  for (const char* text : {"m.x=2", "--m.y=3", "l.1.w=0.5", "l.0={p: c}", "new.deep=[1, 2]"})
    override(tree, text);
  EXPECT_EQ(fault(), "none");
  EXPECT_EQ(text_at(tree, "m"), "{x: 2, y: 3}");
  EXPECT_EQ(text_at(tree, "l"), "[{p: c}, {p: b, w: 0.5}]");
  EXPECT_EQ(text_at(tree, "new.deep"), "[1, 2]");
  EXPECT_EQ(tree.at_path("m.x")->origin.str(), "command line");
}

TEST_F(Tree, AnOverrideOfOneExclusiveKeyClearsTheOthers) {
  Value tree = load("t: {steps: 5}\n");
  override(tree, "t.tokens=7");
  EXPECT_EQ(text_at(tree, "t"), "{steps: null, tokens: 7}");
  override(tree, "t.steps=3");
  EXPECT_EQ(text_at(tree, "t"), "{steps: 3, tokens: null}");
}

TEST_F(Tree, BothExclusiveKeysInOneFileAreLeftForTheRulesToRefuse) {
  EXPECT_EQ(text_at(load("t: {steps: 5, tokens: 7}\n"), "t"), "{steps: 5, tokens: 7}");
}

TEST_F(Tree, ABadOverrideIsAFault) {
  for (const char* text : {"novalue", "=1", "l.2=x", "l.x=1", "a=[1"}) {
    report_.faults.clear();
    Value tree = load("l: [1, 2]\n");
    override(tree, text);
    EXPECT_THAT(fault(), HasSubstr("command line")) << text;
  }
}

TEST_F(Tree, PrintedTextLoadsAgainToTheSameTree) {
  const std::string text =
      "a: 1\nm:\n  s: \"a: b\"\n  l: [1, \"x y\"]\n  e: []\n  n: null\nk:\n  - {p: \"*.txt\", w: "
      "2}\n  - {p: b}\n";
  const Value tree = load(text);
  const std::string printed = print_tree(tree);
  EXPECT_EQ(print_tree(load(printed)), printed);
  EXPECT_EQ(fault(), "none");
  EXPECT_EQ(print_inline(load(printed)), print_inline(tree));
}

}  // namespace
}  // namespace coeus::config
