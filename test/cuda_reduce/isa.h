// The tests of the host kernels, for each instruction set.
#pragma once

#include "cuda_reduce/reduce.h"
#include "test/catch.h"

// Limits the instruction set for one scope.
class WithIsa {
 public:
  explicit WithIsa(gpuar::HostIsa isa) : runs_(gpuar::limit_host_isa(isa) == isa) {}
  WithIsa(const WithIsa&) = delete;
  WithIsa& operator=(const WithIsa&) = delete;
  ~WithIsa() { gpuar::limit_host_isa(gpuar::HostIsa::avx512); }
  [[nodiscard]] bool runs() const { return runs_; }

 private:
  bool runs_;
};

template <class Body>
void for_each_isa(Body&& body) {
  for (const gpuar::HostIsa isa :
       {gpuar::HostIsa::baseline, gpuar::HostIsa::avx2, gpuar::HostIsa::avx512}) {
    const WithIsa limit(isa);
    if (limit.runs()) {
      INFO("instruction set " << gpuar::host_isa());
      body();
    } else {
      WARN("SKIP instruction set " << static_cast<int>(isa) << ": this processor runs "
                                   << gpuar::host_isa() << " at most");
    }
  }
}
