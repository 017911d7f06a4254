/* A program in the place of the process that resolves names: the C library loads it there as a way to find hosts, and it tries all
 * that docs/security.md says cannot be done. Each deed has a process of its own, which tells how far it came by how it ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t parent;

/* The address of the bundle's control socket, or of that of another bundle: the abstract name `tabane/tbN`. */
static struct sockaddr_un control(char number)
{
    struct sockaddr_un name = { AF_UNIX, "\0tabane/tb" };
    name.sun_path[10] = number;
    return name;
}

static const socklen_t LENGTH = offsetof(struct sockaddr_un, sun_path) + 11;

static int asks(void)
{
    struct sockaddr_un name = control('0');
    return !connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, LENGTH);
}

static int serves_a_name(void)
{
    struct sockaddr_un name = control('9');
    return !bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, LENGTH);
}

static int listens(void)
{
    return !listen(socket(AF_INET, SOCK_STREAM, 0), 1);
}

/* Makes and uses sockets past the list of system calls. */
static int makes_a_ring(void)
{
    char parameters[120] = { 0 };
    return syscall(SYS_io_uring_setup, 1, parameters) >= 0;
}

static int starts_a_program(void)
{
    execl("/bin/false", "false", NULL);
    return 0;
}

static int reads(const char *path)
{
    char byte;
    return read(open(path, O_RDONLY), &byte, 1) == 1;
}

static int reads_the_key(void)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    char path[256];
    snprintf(path, sizeof path, "%s/key", directory ? directory : "/etc/tabane");
    return reads(path) || reads("/etc/tabane/tb0.key");
}

static int reads_files(void) { return reads("/proc/self/status") || reads("/var/lib/dpkg/status"); }

static int writes_a_file(void) { return open("/tmp/taken", O_WRONLY | O_CREAT, 0600) >= 0; }

static int opens_devices(void) { return open("/dev/net/tun", O_RDWR) >= 0; }

/* Who may read there is told that nothing is at this address. */
static int reads_the_daemon(void)
{
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)4096, 1 };
    return process_vm_readv(parent, &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

static const struct {
    const char *name;
    int (*is_done)(void);
} DEEDS[] = {
    { "ask the bundle", asks },          { "serve a name", serves_a_name },
    { "listen", listens },               { "make a ring", makes_a_ring },
    { "read the key", reads_the_key },   { "read files", reads_files },
    { "write a file", writes_a_file },   { "open devices", opens_devices },
    { "read the daemon", reads_the_daemon },
    { "start a program", starts_a_program },
};

static int is_done(int (*deed)(void))
{
    int end;
    pid_t pid = fork();
    if (pid == 0)
        _exit(deed() ? 1 : 0);
    return pid < 0 || waitpid(pid, &end, 0) != pid || (WIFEXITED(end) && WEXITSTATUS(end) != 0);
}

__attribute__((constructor)) static void take_over(void)
{
    parent = getppid();
    for (size_t deed = 0; deed < sizeof DEEDS / sizeof *DEEDS; deed++)
        dprintf(2, "taken %d: %s: %s\n", getpid(), DEEDS[deed].name, is_done(DEEDS[deed].is_done) ? "done" : "refused");
    dprintf(2, "taken %d: all was tried\n", getpid());
}
