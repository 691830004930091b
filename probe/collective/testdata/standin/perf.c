/* A stand-in for programs of nccl-tests, so that it says nothing of NCCL: it does the same over MPI alone, and
   prints the same table. MPI, the ranks and what goes over the network are real. What is to go wrong is
   chosen when it is compiled: DIES is a rank that is killed, HANGS one that never ends, WRONG one that has a wrong value
   of an all-reduce. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, world;
static MPI_Request request;

/* Ranks wait without spinning: there are more of them than processors, and a build of MPICH gives none away by itself. */
static void await(int begun) {
  for (int done = begun != MPI_SUCCESS; !done; usleep(50)) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

/* In pieces: MPI's own ways for large messages are not what is tested. */
static void operate(const char *name, int root, float *in, float *out, int n) {
  for (int at = 0, k; at < n; at += k) {
    k = n - at < 8192 ? n - at : 8192;
    if (strstr(name, "all_reduce"))
      await(MPI_Iallreduce(in + at, out + at, k, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request));
    else if (strstr(name, "broadcast")) {
      memcpy(out + at, in + at, k * sizeof *out);
      await(MPI_Ibcast(out + at, k, MPI_FLOAT, root, MPI_COMM_WORLD, &request));
    } else {
      MPI_Request sent;
      MPI_Isend(in + at, k, MPI_FLOAT, (rank + 1) % world, 0, MPI_COMM_WORLD, &sent);
      await(MPI_Irecv(out + at, k, MPI_FLOAT, (rank + world - 1) % world, 0, MPI_COMM_WORLD, &request));
      request = sent;
      await(MPI_SUCCESS);
    }
  }
}

static float expected(const char *name, int root) {
  if (strstr(name, "all_reduce")) return world * (world + 1) / 2;
  return strstr(name, "broadcast") ? root + 1 : (rank + world - 1) % world + 1;
}

/* NCCL's log goes where NCCL would write it. */
static void say(const char *host) {
  const char *file = getenv("NCCL_DEBUG_FILE");
  char path[4096] = "";
  for (const char *c = file ? file : ""; *c && strlen(path) < sizeof path - 300; c++) {
    char *end = path + strlen(path);
    if (c[0] == '%' && c[1] == 'h') end += sprintf(end, "%s", host), c++;
    else if (c[0] == '%' && c[1] == 'p') end += sprintf(end, "%d", (int)getpid()), c++;
    else *end = *c, end[1] = 0;
  }
  FILE *log = file ? fopen(path, "w") : stderr;
  if (!log) exit(9);
  for (char **e = environ; *e; e++)
    if (!strncmp(*e, "NCCL_", 5) && strncmp(*e, "NCCL_DEBUG", 10))
      fprintf(log, "%s:%d:%d [0] NCCL INFO %.*s set by environment to %s\n", host, getpid(), getpid(), (int)strcspn(*e, "="), *e, strchr(*e, '=') + 1);
  if (file) fclose(log);
}

int main(int argc, char **argv) {
  const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
  long min = 0, max = 0, factor = 2, iterations = 1, root = 0;
  setlinebuf(stdout);
  for (int c; (c = getopt(argc, argv, "b:e:f:n:w:c:t:g:r:h")) != -1;)
    switch (c) {
    case 'b': min = atol(optarg); break;
    case 'e': max = atol(optarg); break;
    case 'f': factor = atol(optarg); break;
    case 'n': iterations = atol(optarg); break;
    case 'r': root = atol(optarg); break;
    case 'h': printf("USAGE: %s (a stand-in)\n", name); return 0;
    }
  char host[256], line[512], *lines = NULL;
  gethostname(host, sizeof host);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  say(host);
#ifdef DIES
  if (rank == DIES) sleep(1), raise(SIGKILL);
#endif
#ifdef HANGS
  if (rank == HANGS) for (;;) pause();
#endif
  snprintf(line, sizeof line, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [0000:00:00] a stand-in\n", rank, 0, (int)getpid(), host, 0);
  lines = malloc(world * sizeof line);
  await(MPI_Igather(line, sizeof line, MPI_BYTE, lines, sizeof line, MPI_BYTE, 0, MPI_COMM_WORLD, &request));
  if (rank == 0) {
    printf("# nccl-tests version 0.standin nccl-headers=22809 nccl-library=22809\n# Using devices\n");
    for (int i = 0; i < world; i++) printf("%s", lines + i * sizeof line);
    printf("#\n#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n");
  }
  long bad = 0;
  for (long bytes = min; bytes <= max; bytes *= factor) {
    int n = bytes / sizeof(float);
    float *in = malloc(bytes), *out = malloc(bytes);
    if (rank == 0) printf("%12ld  %12d  %8s  %6s  %6ld", bytes, n, "float", "sum", root);
    for (int place = 0; place < 2; place++) {
      for (int i = 0; i < n; i++) in[i] = rank + 1;
      operate(name, root, in, out, n);
      await(MPI_Ibarrier(MPI_COMM_WORLD, &request));
      double began = MPI_Wtime();
      for (int i = 0; i < iterations; i++) operate(name, root, in, out, n);
      double took = (MPI_Wtime() - began) / iterations, most = 0;
      await(MPI_Iallreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request));
#ifdef WRONG
      if (rank == WRONG && strstr(name, "all_reduce")) out[n - 1] += 1;
#endif
      long wrong = 0, all = 0;
      for (int i = 0; i < n; i++) wrong += out[i] != expected(name, root);
      await(MPI_Iallreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &request));
      bad += all > 0;
      double bus = bytes / most / 1e9 * (strstr(name, "all_reduce") ? 2.0 * (world - 1) / world : 1);
      if (rank == 0 && place == 1 && strstr(name, "sendrecv")) printf("  %7.2f  %6.2f  %6.2f    N/A", most * 1e6, bytes / most / 1e9, bus);
      else if (rank == 0) printf("  %7.2f  %6.2f  %6.2f  %6g", most * 1e6, bytes / most / 1e9, bus, (double)all);
    }
    if (rank == 0) printf("\n");
    free(in);
    free(out);
  }
  if (rank == 0) printf("# Out of bounds values : %ld %s\n# Avg bus bandwidth    : 0\n#\n", bad, bad ? "FAILED" : "OK");
#ifdef MPICH
  /* MPI_Finalize of Debian 12's build sometimes does not return over UCX: only the launcher is told (PMI 1). */
  char ack[64];
  await(MPI_Ibarrier(MPI_COMM_WORLD, &request));
  fflush(NULL);
  if (write(atoi(getenv("PMI_FD")), "cmd=finalize\n", 13) == 13 && read(atoi(getenv("PMI_FD")), ack, sizeof ack) > 0) _exit(bad ? 1 : 0);
#endif
  MPI_Finalize();
  return bad ? 1 : 0;
}
