! Writes float32 values in place, by direct access: one record is one row of x.
!
!     writevalues FILE NX NY NT
!
! Record (y, t) of the file becomes x + 1000 * y + 1000000 * t; records are written from the last to
! the first, and only those of even t.
program writevalues
  use, intrinsic :: iso_fortran_env, only: real32
  implicit none
  character(len=4096) :: path, word
  integer :: nx, ny, nt, unit, length, x, y, t
  real(real32), allocatable :: row(:)

  call get_command_argument(1, path)
  call get_command_argument(2, word); read (word, *) nx
  call get_command_argument(3, word); read (word, *) ny
  call get_command_argument(4, word); read (word, *) nt
  allocate (row(nx))
  inquire (iolength=length) row

  open (newunit=unit, file=trim(path), access='direct', form='unformatted', recl=length, &
        status='old', action='readwrite')
  do t = nt, 1, -1
    if (mod(t, 2) /= 0) cycle
    do y = ny, 1, -1
      row = [(real(x + 1000 * y + 1000000 * t, real32), x = 1, nx)]
      write (unit, rec=(t - 1) * ny + y) row
    end do
  end do
  close (unit)
end program writevalues
