/* A driver of long ago: nearly all that gpuar calls is missing. To it, the first GiB of
 * addresses, where a program has nothing, is a device's. */
int cuDriverGetVersion(int* version);
int cuDriverGetVersion(int* version) {
  *version = 9010;
  return 0;
}

int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer);
int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  const int memory_type = 2, of_device = 2, invalid = 1;
  if (attribute != memory_type || pointer >= 1U << 30) return invalid;
  *(unsigned*)value = of_device;
  return 0;
}
