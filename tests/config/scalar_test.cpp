#include "config/scalar.h"

#include <gtest/gtest.h>

#include <limits>

namespace coeus::config {
namespace {

TEST(Count, TakesPowersOfTenAndOfTwo) {
  EXPECT_EQ(parse_count("12"), 12);
  EXPECT_EQ(parse_count("-1"), -1);
  EXPECT_EQ(parse_count("10K"), 10'000);
  EXPECT_EQ(parse_count("1.5M"), 1'500'000);
  EXPECT_EQ(parse_count("15B"), 15'000'000'000);
  EXPECT_EQ(parse_count("4Ki"), 4096);
  EXPECT_EQ(parse_count("2Mi"), 2 << 20);
  EXPECT_EQ(parse_count("1e9"), 1'000'000'000);
  EXPECT_EQ(parse_count("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
}

TEST(Count, RefusesWhatIsNoIntegerOf64Bits) {
  for (const char* text :
       {"", "-", "K", "1.5", "1.0005K", "1e-3", "9223372036854775808", "10000000000B", "1k", "0x10",
        "1_000", "12 ", " 12", "1e", "1e99", "nan", "1.2.3", "--1", "123456789012345678901"}) {
    EXPECT_EQ(parse_count(text), std::nullopt) << text;
  }
}

TEST(Number, AnExponentWithoutAPointIsANumber) {
  EXPECT_EQ(parse_number("1e-5"), 1e-5);
  EXPECT_EQ(parse_number("3e-4"), 3e-4);
  EXPECT_EQ(parse_number("2"), 2.0);
  EXPECT_EQ(parse_number("+.5"), 0.5);
}

TEST(Number, RefusesWhatIsNotFinite) {
  for (const char* text : {"", "inf", "nan", ".inf", "1e999", "1.0x", "1,5"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
}

TEST(Duration, AddsUnitsAndPrintsTheLargest) {
  EXPECT_EQ(parse_duration("30s"), 30);
  EXPECT_EQ(parse_duration("10m"), 600);
  EXPECT_EQ(parse_duration("1h30m"), 5400);
  EXPECT_EQ(parse_duration("250ms"), 0.25);
  for (const char* text : {"", "10", "m", "-5s", "1d", "10 m"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
  for (const double seconds : {600.0, 1200.0, 7200.0, 90.0, 0.25}) {
    EXPECT_EQ(parse_duration(print_duration(seconds)), seconds);
  }
  EXPECT_EQ(print_duration(1200), "20m");
}

TEST(Bytes, TakesBothKindsOfUnits) {
  EXPECT_EQ(parse_bytes("64KiB"), 65536);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1610612736);
  EXPECT_EQ(parse_bytes("-1"), std::nullopt);
  EXPECT_EQ(print_bytes(5LL << 30), "5GiB");
  EXPECT_EQ(print_bytes(1000), "1000");
}

TEST(String, IsQuotedWhereAnotherReaderWouldSeeSomethingElse) {
  EXPECT_EQ(print_string("runs/llama-8b"), "runs/llama-8b");
  for (const char* text :
       {"", "null", "~", "true", "1e5", "12", "a: b", "a #b", "*.txt", "-x", "@x", "a\"b\n"}) {
    EXPECT_EQ(print_string(text).front(), '"') << text;
  }
}

}  // namespace
}  // namespace coeus::config
