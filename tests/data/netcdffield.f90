! Reads a variable as a model does, and changes an element of it.
!
!     netcdffield read FILE          prints every value of t2m, read step by step
!     netcdffield blocks FILE        the same, read by hyperslabs of parts of each axis
!     netcdffield edit FILE VALUE [I J K]
!                                    sets t2m(K + 1, J + 1, I + 1), t2m(4, 3, 2) unless they are given
!     netcdffield steps FILE COUNT   adds 1 to every value of the first steps, by spatial blocks
!     netcdffield spoil FILE         tries to change an attribute
!     netcdffield version
program netcdffield
  use netcdf
  implicit none
  character(len=4096) :: task, path, word
  integer :: file, variable, sizes(3), dimensions(3), axis, mode, steps, element(3) = [1, 2, 3]
  real :: changed

  call get_command_argument(1, task)
  call get_command_argument(2, path)
  if (task == 'version') then
    print '(a)', trim(nf90_inq_libvers())
    stop
  end if
  mode = merge(NF90_WRITE, NF90_NOWRITE, task == 'edit' .or. task == 'spoil' &
               .or. task == 'steps')
  call check(nf90_open(trim(path), mode, file))
  call check(nf90_inq_varid(file, 't2m', variable))
  call check(nf90_inquire_variable(file, variable, dimids=dimensions))
  do axis = 1, 3
    call check(nf90_inquire_dimension(file, dimensions(axis), len=sizes(axis)))
  end do
  select case (task)
  case ('read')
    call read_steps()
  case ('blocks')
    call read_blocks()
  case ('edit')
    call get_command_argument(3, word)
    read (word, *) changed
    do axis = 1, merge(3, 0, command_argument_count() == 6)
      call get_command_argument(3 + axis, word)
      read (word, *) element(axis)
    end do
    call check(nf90_put_var(file, variable, [changed], start=element(3:1:-1) + 1, count=[1, 1, 1]))
  case ('steps')
    call get_command_argument(3, word)
    read (word, *) steps
    call add_to_steps()
  case ('spoil')
    call check(nf90_redef(file))
    call check(nf90_put_att(file, variable, 'comment', repeat('x', 5000)))
    call check(nf90_enddef(file))
  end select
  call check(nf90_close(file))

contains

  subroutine read_steps()
    real, allocatable :: field(:, :)
    integer :: step

    allocate (field(sizes(1), sizes(2)))
    do step = 1, sizes(3)
      call check(nf90_get_var(file, variable, field, start=[1, 1, step], &
                              count=[sizes(1), sizes(2), 1]))
      print '(es16.8)', field
    end do
  end subroutine read_steps

  subroutine read_blocks()
    real, allocatable :: field(:, :, :)
    integer :: x, y, counts(3)

    allocate (field(sizes(1), sizes(2), sizes(3)))
    do y = 1, sizes(2), 4
      do x = 1, sizes(1), 3
        counts = [min(3, sizes(1) - x + 1), min(4, sizes(2) - y + 1), sizes(3)]
        call check(nf90_get_var(file, variable, &
                                field(x:x + counts(1) - 1, y:y + counts(2) - 1, :), &
                                start=[x, y, 1], count=counts))
      end do
    end do
    print '(es16.8)', field
  end subroutine read_blocks

  subroutine add_to_steps()
    integer, parameter :: block = 512
    real, allocatable :: field(:, :)
    integer :: step, x, y, counts(3)

    do step = 1, steps
      do y = 1, sizes(2), block
        do x = 1, sizes(1), block
          counts = [min(block, sizes(1) - x + 1), min(block, sizes(2) - y + 1), 1]
          if (allocated(field)) deallocate (field)
          allocate (field(counts(1), counts(2)))
          call check(nf90_get_var(file, variable, field, start=[x, y, step], count=counts))
          field = field + 1
          call check(nf90_put_var(file, variable, field, start=[x, y, step], count=counts))
        end do
      end do
    end do
  end subroutine add_to_steps

  subroutine check(status)
    integer, intent(in) :: status

    if (status /= NF90_NOERR) then
      write (*, '(a)') trim(nf90_strerror(status))
      stop 1
    end if
  end subroutine check
end program netcdffield
