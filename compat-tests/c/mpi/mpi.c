// MPI between all ranks: point to point from 8 bytes to 16 MiB, collectives, and one-sided operations. Every
// byte is checked. Prints "rank R of N: B bad".
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 4096
#define BLOCK 1000

static int rank, ranks, bad;

static void expect(const char *bytes, int len, char value)
{
	for (int i = 0; i < len; i++)
		bad += bytes[i] != value;
}

static void point_to_point(int len)
{
	char *out = malloc(len), *in = calloc(1, len);
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

	memset(out, rank + 1, len);
	MPI_Sendrecv(out, len, MPI_CHAR, next, 1, in, len, MPI_CHAR, previous, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	expect(in, len, (char)(previous + 1));
	MPI_Bcast(out, len, MPI_CHAR, 0, MPI_COMM_WORLD);
	expect(out, len, 1);
	free(out);
	free(in);
}

static void collectives(void)
{
	long own = rank + 1, sum;
	char *out = malloc(ranks * BLOCK), *in = malloc(ranks * BLOCK);

	MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	bad += sum != (long)ranks * (ranks + 1) / 2;
	memset(out, rank, ranks * BLOCK);
	MPI_Alltoall(out, BLOCK, MPI_CHAR, in, BLOCK, MPI_CHAR, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		expect(in + i * BLOCK, BLOCK, (char)i);
	free(out);
	free(in);
}

static void one_sided(void)
{
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, one = 1, old;
	int out[COUNT], in[COUNT], *memory;
	MPI_Win window;

	MPI_Win_allocate(sizeof(out), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	memset(memory, 0, sizeof(out));
	for (int i = 0; i < COUNT; i++)
		out[i] = rank * 10000 + i;
	MPI_Win_fence(0, window);
	MPI_Put(out, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < COUNT; i++)
		bad += memory[i] != previous * 10000 + i;
	MPI_Get(in, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, window);
	MPI_Win_fence(0, window);
	bad += memcmp(in, out, sizeof(in)) != 0;
	memory[0] = 0;
	MPI_Win_fence(0, window);
	for (int i = 0; i < 100; i++) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
		MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, window);
		MPI_Win_unlock(0, window);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
		bad += memory[0] != 100 * ranks;
		MPI_Win_unlock(0, window);
	}
	MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int len = 8; len <= 16 << 20; len *= 8)
		point_to_point(len);
	collectives();
	one_sided();
	printf("rank %d of %d: %d bad\n", rank, ranks, bad);
	MPI_Finalize();
	return bad != 0;
}
