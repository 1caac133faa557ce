// The driver in this process: initialised or not, and its devices.
#pragma once
#include <functional>

namespace simgpu {

struct Context;

int device_count();                    // that this process sees
int physical(int device);              // number in the machine
int device_of_physical(int physical);  // -1: not visible here
bool can_access(int device, int other);

// In context.cpp: contexts that nobody destroyed.
void for_each_left_context(const std::function<void(const Context&)>& visit);

}  // namespace simgpu
