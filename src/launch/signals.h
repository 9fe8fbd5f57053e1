#pragma once
#include <signal.h>

#include <vector>

#include "base/files.h"

namespace coeus::launch {

// While it lives, the signals a launcher acts on arrive on a descriptor instead of interrupting;
// SIGPIPE becomes EPIPE. Ignored ones (nohup, background jobs of scripts) stay ignored.
class SignalReader {
 public:
  SignalReader();
  ~SignalReader();
  int descriptor() const { return fd_.get(); }
  std::vector<int> read();  // what has arrived, never waits
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_;
  files::Descriptor fd_;
};

}  // namespace coeus::launch
