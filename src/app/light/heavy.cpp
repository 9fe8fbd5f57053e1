#include "app/light/commands.h"
#include "app/light/exec.h"

namespace coeus::app {
namespace {

int become(const char* command, const Arguments& arguments) {
  Arguments words = {command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  exec_heavy(words);
}

}  // namespace

int eval(const Arguments& arguments) {
  return become("eval", arguments);
}
int generate(const Arguments& arguments) {
  return become("generate", arguments);
}

}  // namespace coeus::app
