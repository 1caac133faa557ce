// What UCX reads from the environment, for as long as a test needs it.
#pragma once

#include <cstdlib>
#include <string>

namespace gpuar::test {

// Sets a variable of UCX for as long as it lives.
class UcxVariable {
 public:
  UcxVariable(const char* name, const char* value) : name_(name) {
    const char* const before = std::getenv(name);
    if (before != nullptr) before_ = before;
    setenv(name, value, 1);
  }
  UcxVariable(const UcxVariable&) = delete;
  UcxVariable& operator=(const UcxVariable&) = delete;
  ~UcxVariable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

// Chooses UCX's transports.
struct UcxTls : UcxVariable {
  explicit UcxTls(const char* transports) : UcxVariable("UCX_TLS", transports) {}
};

}  // namespace gpuar::test
