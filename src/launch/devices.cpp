#include <dlfcn.h>
#include <sched.h>

#include <algorithm>

#include "launch/environment.h"

namespace coeus::launch {

int count_gpus(const Environment& environment) {
  // The driver applies CUDA_VISIBLE_DEVICES itself; an empty list needs no driver.
  if (const auto visible = environment("CUDA_VISIBLE_DEVICES");
      visible && (visible->empty() || (*visible)[0] == '-'))
    return 0;
  // Never closed: once initialised, the driver has threads of its own.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  if (!init || !count || init(0) != 0 || count(&devices) != 0) return 0;
  return devices;
}

int count_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace coeus::launch
