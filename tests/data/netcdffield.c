/* Reads a variable as a C program does, and changes an element of it.
 *
 *     netcdffield read FILE           prints every value of t2m, read by steps and as a whole
 *     netcdffield edit FILE VALUE [I J K]
 *                                     sets t2m[I][J][K], t2m[1][2][3] unless they are given
 *     netcdffield spoil FILE          tries to add a variable
 *     netcdffield version
 *
 * Ends with 1, and the words of the library, when a call fails.
 */
#include <netcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int status, const char *what) {
    if (status != NC_NOERR) {
        fprintf(stderr, "%s: %s\n", what, nc_strerror(status));
        exit(1);
    }
}

static void read_values(int file) {
    int variable, rank, dimensions[NC_MAX_VAR_DIMS];
    size_t count[3], start[3] = {0, 0, 0}, size = 1, step;

    check(nc_inq_varid(file, "t2m", &variable), "nc_inq_varid");
    check(nc_inq_varndims(file, variable, &rank), "nc_inq_varndims");
    if (rank != 3) exit(2);
    check(nc_inq_vardimid(file, variable, dimensions), "nc_inq_vardimid");
    for (int axis = 0; axis < 3; axis++) {
        check(nc_inq_dimlen(file, dimensions[axis], &count[axis]), "nc_inq_dimlen");
        size *= count[axis];
    }
    float *whole = malloc(size * sizeof(float)), *steps = malloc(size * sizeof(float));
    check(nc_get_var_float(file, variable, whole), "nc_get_var_float");
    step = count[1] * count[2];
    const size_t records = count[0];
    count[0] = 1;
    for (start[0] = 0; start[0] < records; start[0]++)
        check(nc_get_vara_float(file, variable, start, count, steps + start[0] * step), "step");
    if (memcmp(whole, steps, size * sizeof(float))) exit(3);
    for (size_t i = 0; i < size; i++) printf("%.9g\n", whole[i]);
    free(whole);
    free(steps);
}

int main(int argc, char **argv) {
    int file, variable;

    if (argc < 2) return 2;
    if (!strcmp(argv[1], "version")) {
        printf("%s\n", nc_inq_libvers());
        return 0;
    }
    const int reads = !strcmp(argv[1], "read");
    check(nc_open(argv[2], reads ? NC_NOWRITE : NC_WRITE, &file), "nc_open");
    if (reads) {
        read_values(file);
    } else if (!strcmp(argv[1], "edit")) {
        size_t index[3] = {1, 2, 3};
        for (int axis = 0; axis < 3 && argc == 7; axis++) index[axis] = strtoul(argv[4 + axis], NULL, 10);
        const float value = strtof(argv[3], NULL);
        check(nc_inq_varid(file, "t2m", &variable), "nc_inq_varid");
        check(nc_put_var1_float(file, variable, index, &value), "nc_put_var1_float");
    } else {
        nc_redef(file); /* netCDF-4 does so by itself */
        check(nc_def_var(file, "new", NC_INT, 0, NULL, &variable), "nc_def_var");
        check(nc_enddef(file), "nc_enddef");
    }
    check(nc_close(file), "nc_close");
    return 0;
}
