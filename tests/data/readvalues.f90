! Reads float32 values as a model would: the whole file, and single elements at their places.
!
!     readvalues FILE NX NY NT
!
! The file holds real(4) values in the order of C, so that x varies fastest. Prints the size of the
! file, the sum of all values, each value at (x, y, t) = (nx, ny, nt), (1, 1, nt), (nx, 1, 1), and
! what lies behind the end.
program readvalues
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64, iostat_end
  implicit none
  character(len=4096) :: path, word
  integer :: nx, ny, nt, unit, status
  integer(int64) :: bytes
  real(real32), allocatable :: field(:, :, :)
  real(real32) :: value

  call get_command_argument(1, path)
  call get_command_argument(2, word); read (word, *) nx
  call get_command_argument(3, word); read (word, *) ny
  call get_command_argument(4, word); read (word, *) nt
  allocate (field(nx, ny, nt))

  open (newunit=unit, file=trim(path), access='stream', form='unformatted', &
        status='old', action='read')
  inquire (unit=unit, size=bytes)
  print '(i0)', bytes
  read (unit) field
  print '(es24.16)', sum(real(field, real64))
  print '(es16.8)', at(nx, ny, nt)
  print '(es16.8)', at(1, 1, nt)
  print '(es16.8)', at(nx, 1, 1)
  read (unit, pos=bytes + 1, iostat=status) value
  print '(l1)', status == iostat_end
  close (unit)

contains

  real(real32) function at(x, y, t)
    integer, intent(in) :: x, y, t
    integer(int64) :: element

    element = (int(t - 1, int64) * ny + (y - 1)) * nx + x
    read (unit, pos=4 * (element - 1) + 1) at
    if (at /= field(x, y, t)) error stop 'an element differs from the whole'
  end function at
end program readvalues
