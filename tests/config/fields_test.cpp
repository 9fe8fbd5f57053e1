#include "coeus/config/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/reference.h"
#include "config/tree.h"
#include "config/yaml.h"

namespace coeus::config {

enum class Color { red, green };
std::span<const EnumName<Color>> enum_names(Color) {
  static constexpr EnumName<Color> kNames[] = {{Color::red, "red"}, {Color::green, "green"}};
  return kNames;
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Item {
  std::string path;
  std::optional<double> weight;
  std::string where;
  void describe(Fields& f) {
    f.short_form("path").origin(where);
    f("path", path, "a path", required())("weight", weight, "a share", above(0));
  }
};

struct Inner {
  std::int64_t dim = 512;
  double eps = 1e-5;
  void describe(Fields& f) {
    f("dim", dim, "width", at_least(1))("eps", eps, "small", between(0, 1));
  }
};

struct Everything {
  bool flag = true;
  std::int64_t count = 3;
  double ratio = 0.5;
  std::string word = "a", name = "x";
  Color color = Color::green;
  std::vector<std::string> names = {"head"};
  std::array<double, 2> betas = {0.9, 0.95};
  std::optional<std::int64_t> port;
  double timeout = 600;
  std::int64_t size = 1 << 20;
  std::vector<Item> items;
  Inner inner;
  void describe(Fields& f) {
    f("flag", flag, "a flag")("count", count, "a count", at_least(0))("ratio", ratio, "a ratio",
                                                                      from_up_to_below(0, 1))(
        "word", word, "a word", one_of({"a", "b"}))("name", name, "a name", not_empty())(
        "color", color, "a color")("names", names, "names")(
        "betas", betas, "two rates", between(0, 1))("port", port, "a port", between(1, 65535))(
        "timeout", duration(timeout), "a wait", above(0))("size", bytes(size), "a size")(
        "items", single_or_list(items), "items")("inner", inner, "nested");
  }
};

struct ReadResult {
  Everything value;
  std::vector<std::string> faults;
};

ReadResult read(const std::string& text) {
  ReadResult result;
  Report report{.file = "x"};
  Value tree = parse_yaml(text, "x", report);
  Slot slot(Mode::read, tree, "", nullptr, report);
  visit(slot, result.value);
  for (const Fault& fault : report.faults) result.faults.push_back(fault.str());
  return result;
}

Value write(Everything value, Mode mode = Mode::write) {
  Value tree;
  Report report;
  Slot slot(mode, tree, "", nullptr, report);
  visit(slot, value);
  return tree;
}

TEST(Fields, ReadEveryTypeOfValue) {
  const auto [v, faults] = read(
      "flag: false\ncount: 2Ki\nratio: 1e-1\nword: b\nname: 124m\ncolor: red\nnames: [a, "
      "b]\nbetas: [0, 1]\nport: 80\n"
      "timeout: 1h\nsize: 4KiB\nitems: [one, {path: two, weight: 2}]\ninner: {dim: 7}\n");
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_FALSE(v.flag);
  EXPECT_EQ(v.count, 2048);
  EXPECT_EQ(v.ratio, 0.1);
  EXPECT_EQ(v.word, "b");
  EXPECT_EQ(v.name, "124m");
  EXPECT_EQ(v.color, Color::red);
  EXPECT_THAT(v.names, ElementsAre("a", "b"));
  EXPECT_THAT(v.betas, ElementsAre(0, 1));
  EXPECT_EQ(v.port, 80);
  EXPECT_EQ(v.timeout, 3600);
  EXPECT_EQ(v.size, 4096);
  ASSERT_EQ(v.items.size(), 2u);
  EXPECT_EQ(v.items[0].path, "one");
  EXPECT_EQ(v.items[0].where, "x:12:9");
  EXPECT_EQ(v.items[1].weight, 2);
  EXPECT_EQ(v.inner.dim, 7);
  EXPECT_EQ(v.inner.eps, 1e-5);
}

TEST(Fields, AListMayBeWrittenAsItsOnlyItemWhereTheFieldSaysSo) {
  EXPECT_EQ(read("items: one\n").value.items.at(0).path, "one");
  EXPECT_EQ(read("items: {path: one, weight: 1}\n").value.items.at(0).weight, 1);
  EXPECT_THAT(read("names: one\n").faults, ElementsAre("x:1:8: names: must be a list, is 'one'"));
}

TEST(Fields, NullMeansTheDefault) {
  const auto [v, faults] = read("count: null\nport: ~\ninner:\n");
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_EQ(v.count, 3);
  EXPECT_EQ(v.port, std::nullopt);
  EXPECT_EQ(v.inner.dim, 512);
}

TEST(Fields, AllFaultsAreReportedEachWithItsPlace) {
  EXPECT_THAT(
      read("flag: yes\ncount: -1\nratio: 1\nword: c\nname: \"\"\ncolor: gren\nnames: [a, "
           "null]\nbetas: [0.9]\n"
           "port: 70K\ntimeout: 10\nsize: x\nitems: [{weight: 0}]\ninner: {dim: \"7\", esp: 1}\n")
          .faults,
      ElementsAre("x:1:7: flag: must be true or false, is 'yes'",
                  "x:2:8: count: must be ≥ 0, is -1", "x:3:8: ratio: must be ≥ 0, < 1, is 1",
                  "x:4:7: word: must be one of a, b, is 'c'", "x:5:7: name: must not be empty",
                  "x:6:8: color: must be one of red, green, is 'gren'; did you mean green?",
                  "x:7:12: names.1: an item of a list must not be null",
                  "x:8:8: betas: must be a list of 2 items",
                  "x:9:7: port: must be ≥ 1, ≤ 65535, is 70K",
                  "x:10:10: timeout: must be a duration (30s, 10m, 2h), is '10'",
                  "x:11:7: size: must be a size (64KiB, 5GiB), is 'x'",
                  "x:12:9: items.0.path: is required", "x:12:18: items.0.weight: must be > 0, is 0",
                  "x:13:14: inner.dim: must be an integer (1000, 10K, 4Ki), is the string \"7\"",
                  "x:13:19: inner.esp: unknown key; did you mean eps?"));
}

TEST(Fields, AWrongKindOfValueIsNamed) {
  EXPECT_THAT(read("inner: 5\n").faults,
              ElementsAre("x:1:8: inner: must be a map of keys, is '5'"));
  EXPECT_THAT(read("count: [1]\n").faults, ElementsAre(HasSubstr("is a list")));
  EXPECT_THAT(read("name: {a: 1}\n").faults,
              ElementsAre("x:1:7: name: must be a string, is a map"));
}

TEST(Fields, AFaultyValueLeavesTheDefault) {
  EXPECT_EQ(read("count: -1\n").value.count, 3);
}

TEST(Fields, WhatIsWrittenReadsBackToTheSame) {
  Everything v;
  v.ratio = 1.0 / 3;
  v.name = "a: \"b\"";
  v.timeout = 0.25;
  v.items = {{"*.txt", {}, ""}, {"b", 0.1, ""}};
  const std::string text = print_tree(write(v));
  const auto [again, faults] = read(text);
  EXPECT_THAT(faults, IsEmpty());
  EXPECT_EQ(print_tree(write(again)), text);
  EXPECT_EQ(again.ratio, v.ratio);
  EXPECT_EQ(again.items[1].weight, 0.1);
}

TEST(Fields, TheReferenceListsEveryFieldWithTypeDefaultRangeAndDoc) {
  const auto lines = list_fields(write({}, Mode::schema));
  const auto find = [&](const std::string& path) {
    for (const FieldLine& line : lines) {
      if (line.path == path) return line;
    }
    return FieldLine{};
  };
  EXPECT_EQ(find("count").range, "≥ 0");
  EXPECT_EQ(find("count").initial, "3");
  EXPECT_EQ(find("port").type, "integer or null");
  EXPECT_EQ(find("color").range, "red | green");
  EXPECT_EQ(find("timeout").initial, "10m");
  EXPECT_EQ(find("betas").initial, "[0.9, 0.95]");
  EXPECT_EQ(find("items").initial, "[]");
  EXPECT_EQ(find("items[].weight").doc, "a share");
  EXPECT_EQ(find("inner.dim").doc, "width");
}

}  // namespace
}  // namespace coeus::config
