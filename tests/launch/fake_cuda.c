// A driver with three GPUs, as far as counting goes.
int cuInit(unsigned flags) { return flags != 0; }
int cuDeviceGetCount(int* count) {
  *count = 3;
  return 0;
}
