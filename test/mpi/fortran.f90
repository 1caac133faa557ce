! Allreduce from Fortran: in place and apart, blocking and nonblocking, Fortran's own types.
program fortran
  use mpi
  implicit none
  integer :: rank, ranks, error, request, failures, i
  double precision :: one(1)
  integer :: whole(100), total(100)
  logical :: flags(3), answers(3)
  complex :: numbers(50), sums(50)
  double precision :: pair(2, 5), best(2, 5)
  integer, parameter :: quad = selected_real_kind(33)
  real(quad) :: long(2), longest(2)
  complex(quad) :: long_number, long_sum

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  failures = 0

  one(1) = 10.5d0 - rank
  call MPI_Allreduce(MPI_IN_PLACE, one, 1, MPI_DOUBLE_PRECISION, MPI_MIN, MPI_COMM_WORLD, error)
  call check('in_place_minimum', one(1) == 10.5d0 - (ranks - 1))

  whole = rank + 1
  total = -1
  call MPI_Iallreduce(whole, total, 100, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, error)
  call MPI_Wait(request, MPI_STATUS_IGNORE, error)
  call check('nonblocking_integers', all(total == ranks * (ranks + 1) / 2))

  flags = [.true., rank == 0, .false.]
  call MPI_Allreduce(flags, answers, 3, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, error)
  call check('logical_or', answers(1) .and. answers(2) .and. .not. answers(3))
  call MPI_Allreduce(flags, answers, 3, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, error)
  call check('logical_and', answers(1) .and. (.not. answers(2)) .and. (.not. answers(3)))

  numbers = cmplx(rank, -1)
  call MPI_Allreduce(numbers, sums, 50, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, error)
  call check('complex_sum', all(sums == cmplx(ranks * (ranks - 1) / 2, -ranks)))

  ! Quadruple precision is not C's long double: the second term is lost in any other type.
  long = [1.5_quad, 1.0_quad + rank * 2.0_quad ** (-100)]
  call MPI_Allreduce(long, longest, 2, MPI_REAL16, MPI_SUM, MPI_COMM_WORLD, error)
  call check('quadruple_sum', all(longest == [1.5_quad * ranks, &
             ranks + (ranks * (ranks - 1) / 2) * 2.0_quad ** (-100)]))
  call MPI_Allreduce(long, longest, 2, MPI_REAL16, MPI_MAX, MPI_COMM_WORLD, error)
  call check('quadruple_maximum', longest(2) == 1.0_quad + (ranks - 1) * 2.0_quad ** (-100))
  long_number = cmplx(rank, -1, quad)
  call MPI_Allreduce(long_number, long_sum, 1, MPI_COMPLEX32, MPI_SUM, MPI_COMM_WORLD, error)
  call check('quadruple_complex_sum', long_sum == cmplx(ranks * (ranks - 1) / 2, -ranks, quad))

  do i = 1, 5
    pair(1, i) = mod(rank + i, ranks)
    pair(2, i) = rank
  end do
  call MPI_Allreduce(pair, best, 5, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD, error)
  call check('largest_and_where', all(best(1, :) == ranks - 1) .and. &
             all([(nint(best(2, i)) == modulo(ranks - 1 - i, ranks), i = 1, 5)]))

  call MPI_Finalize(error)
  if (failures > 0) error stop 1

contains

  subroutine check(name, passed)
    character(*), intent(in) :: name
    logical, intent(in) :: passed
    if (.not. passed) failures = failures + 1
    if (passed .and. rank == 0) print '(2a)', 'PASS ', name
    if (.not. passed) print '(3a, i0)', 'FAIL ', name, ': rank ', rank
  end subroutine check
end program fortran
