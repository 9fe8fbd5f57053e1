#include "base/unique_handle.h"

#include <gtest/gtest.h>

namespace coeus {
namespace {

int closed = 0;
void close_handle(int) noexcept {
  ++closed;
}
using Handle = UniqueHandle<int, close_handle, -1>;

TEST(UniqueHandle, ClosesOnceHoweverOftenItIsMoved) {
  closed = 0;
  {
    Handle a(5);
    Handle b(std::move(a));
    Handle c;
    c = std::move(b);
    EXPECT_EQ(c.get(), 5);
    EXPECT_FALSE(a);
    EXPECT_EQ(closed, 0);
  }
  EXPECT_EQ(closed, 1);
}

TEST(UniqueHandle, ZeroIsAHandleWhereMinusOneIsTheEmptyOne) {
  closed = 0;
  { const Handle zero(0); }
  EXPECT_EQ(closed, 1);
  { const Handle none; }
  EXPECT_EQ(closed, 1);
}

TEST(UniqueHandle, AReleasedHandleIsTheCallersToClose) {
  closed = 0;
  {
    Handle a(5);
    EXPECT_EQ(a.release(), 5);
  }
  EXPECT_EQ(closed, 0);
}

}  // namespace
}  // namespace coeus
