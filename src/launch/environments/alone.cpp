#include "launch/environments/environments.h"

namespace coeus::launch {

Finding find_alone(const Environment&) {
  return {World{}, {}};
}

}  // namespace coeus::launch
