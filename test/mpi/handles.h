// What the tests of gpuar.h share: handles that free themselves, and errors that are counted.
#pragma once

#include <cmath>

#include "gpuar.h"
#include "harness.h"
#include "test/cuda_reduce/numbers.h"

namespace mpitest {

class Op {
 public:
  explicit Op(gpuar_op_name name) { gpuar_op(name, &handle_); }
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  ~Op() {
    if (handle_ != MPI_OP_NULL) MPI_Op_free(&handle_);
  }
  operator MPI_Op() const { return handle_; }

 private:
  MPI_Op handle_ = MPI_OP_NULL;
};

// A datatype that this program made.
class Type {
 public:
  explicit Type(gpuar_type_name name) { gpuar_type(name, &handle_); }
  // Commits what `make` makes.
  template <class Make>
  explicit Type(Make make) {
    make(&handle_);
    MPI_Type_commit(&handle_);
  }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  ~Type() { MPI_Type_free(&handle_); }
  operator MPI_Datatype() const { return handle_; }

 private:
  MPI_Datatype handle_ = MPI_DATATYPE_NULL;
};

inline int errors_seen = 0;

inline void note_error(MPI_Comm* /*comm*/, int* /*code*/, ...) {
  ++errors_seen;
}

// Errors of MPI_COMM_WORLD are counted, and returned, for one scope.
class ErrorsReturn {
 public:
  ErrorsReturn() {
    errors_seen = 0;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before_);
    MPI_Comm_create_errhandler(note_error, &counting_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, counting_);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;
  ~ErrorsReturn() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before_);
    MPI_Errhandler_free(&counting_);
    MPI_Errhandler_free(&before_);
  }

 private:
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
  MPI_Errhandler counting_ = MPI_ERRHANDLER_NULL;
};

template <class T>
T number(double value) {
  if constexpr (reference::is_narrow<T>)
    return T::nearest(value);
  else if constexpr (reference::is_complex<T>)
    return {number<typename T::value_type>(value), number<typename T::value_type>(3 - value)};
  else
    return static_cast<T>(value);
}

}  // namespace mpitest
