/* A PKCS #11 library around another one: it notes calls, and hangs, crashes or fails where a test asks for it.
 *
 * WRAPPED_MODULE is the path of the library inside. DRIVER_FOLDER holds what a test asks for, one file each:
 *   hang-NAME, crash-NAME     in the function NAME
 *   error-NAME                holds the return value, hexadecimal
 *   flags                     holds flags that each token has besides its own, hexadecimal
 *   hide                      holds a mechanism that no token lists, hexadecimal
 *   refuse                    holds a mechanism that is listed and does not work, hexadecimal
 *   pad                       holds the PIN that a person enters at the pad
 * and `calls`, one line for each call: process and function.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long ulong_t;
enum { INITIALIZE = 0, TOKEN_INFO = 6, MECHANISM_LIST = 7, OPEN_SESSION = 12, LOGIN = 18, LOGOUT = 19, SIGN_INIT = 42,
       SIGN = 43, COUNT = 68 };
enum { FLAGS_OFFSET = 96, MECHANISM_INVALID = 0x70 };

struct functions {
    unsigned char version[2];
    void *entries[COUNT];
};

static struct functions *inner, outer;

static int path_of(char *path, size_t size, const char *kind, const char *name) {
    const char *folder = getenv("DRIVER_FOLDER");
    return folder && snprintf(path, size, "%s/%s%s", folder, kind, name) < (int)size;
}

static int read_text(const char *kind, const char *name, char *text, size_t size) {
    char path[4096];
    if (!path_of(path, sizeof path, kind, name))
        return 0;
    int file = open(path, O_RDONLY);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, size - 1);
    close(file);
    text[length < 0 ? 0 : length] = 0;
    return 1;
}

static int read_number(const char *kind, const char *name, ulong_t *number) {
    char text[64];
    if (!read_text(kind, name, text, sizeof text))
        return 0;
    *number = strtoul(text, NULL, 16);
    return 1;
}

static ulong_t enter(const char *name) {
    char path[4096], line[128], ignored[8];
    ulong_t answer = 0;
    if (path_of(path, sizeof path, "calls", "")) {
        int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        int length = snprintf(line, sizeof line, "%d %s\n", (int)getpid(), name);
        if (file >= 0 && write(file, line, (size_t)length) != length)
            abort();
        close(file);
    }
    if (read_text("crash-", name, ignored, sizeof ignored))
        raise(SIGSEGV);
    if (read_text("hang-", name, ignored, sizeof ignored))
        for (;;)
            pause();
    read_number("error-", name, &answer);
    return answer;
}

static ulong_t initialize(void *arguments) {
    ulong_t wrong = enter("C_Initialize");
    return wrong ? wrong : ((ulong_t(*)(void *))inner->entries[INITIALIZE])(arguments);
}

static ulong_t token_info(ulong_t slot, unsigned char *info) {
    ulong_t wrong = enter("C_GetTokenInfo"), flags, more;
    if (!wrong)
        wrong = ((ulong_t(*)(ulong_t, unsigned char *))inner->entries[TOKEN_INFO])(slot, info);
    if (!wrong && read_number("flags", "", &more)) {
        memcpy(&flags, info + FLAGS_OFFSET, sizeof flags);
        flags |= more;
        memcpy(info + FLAGS_OFFSET, &flags, sizeof flags);
    }
    return wrong;
}

static ulong_t mechanism_list(ulong_t slot, ulong_t *list, ulong_t *count) {
    ulong_t hidden, wrong = ((ulong_t(*)(ulong_t, ulong_t *, ulong_t *))inner->entries[MECHANISM_LIST])(slot, list, count);
    if (!wrong && list && read_number("hide", "", &hidden)) {
        ulong_t kept = 0;
        for (ulong_t at = 0; at < *count; at++)
            if (list[at] != hidden)
                list[kept++] = list[at];
        for (ulong_t at = kept; at < *count; at++)
            list[at] = list[0];
    }
    return wrong;
}

static ulong_t open_session(ulong_t slot, ulong_t flags, void *application, void *notify, ulong_t *session) {
    ulong_t wrong = enter("C_OpenSession");
    return wrong ? wrong
                 : ((ulong_t(*)(ulong_t, ulong_t, void *, void *, ulong_t *))inner->entries[OPEN_SESSION])(
                       slot, flags, application, notify, session);
}

static ulong_t login(ulong_t session, ulong_t user, unsigned char *pin, ulong_t length) {
    char entered[64];
    ulong_t wrong = enter("C_Login");
    if (!pin && read_text("pad", "", entered, sizeof entered)) {
        pin = (unsigned char *)entered;
        length = strlen(entered);
    }
    return wrong ? wrong
                 : ((ulong_t(*)(ulong_t, ulong_t, unsigned char *, ulong_t))inner->entries[LOGIN])(session, user, pin,
                                                                                                    length);
}

static ulong_t logout(ulong_t session) {
    ulong_t wrong = enter("C_Logout");
    return wrong ? wrong : ((ulong_t(*)(ulong_t))inner->entries[LOGOUT])(session);
}

static ulong_t sign_init(ulong_t session, ulong_t *mechanism, ulong_t key) {
    ulong_t refused, wrong = enter("C_SignInit");
    if (read_number("refuse", "", &refused) && *mechanism == refused)
        return MECHANISM_INVALID;
    return wrong ? wrong
                 : ((ulong_t(*)(ulong_t, ulong_t *, ulong_t))inner->entries[SIGN_INIT])(session, mechanism, key);
}

static ulong_t sign(ulong_t session, unsigned char *text, ulong_t length, unsigned char *signature, ulong_t *size) {
    ulong_t wrong = enter("C_Sign");
    return wrong ? wrong
                 : ((ulong_t(*)(ulong_t, unsigned char *, ulong_t, unsigned char *, ulong_t *))inner->entries[SIGN])(
                       session, text, length, signature, size);
}

ulong_t C_GetFunctionList(struct functions **list) {
    void *library = dlopen(getenv("WRAPPED_MODULE"), RTLD_NOW);
    void *found = library ? dlsym(library, "C_GetFunctionList") : NULL;
    if (!found || ((ulong_t(*)(struct functions **))found)(&inner))
        return 5;
    outer = *inner;
    outer.entries[INITIALIZE] = (void *)initialize;
    outer.entries[TOKEN_INFO] = (void *)token_info;
    outer.entries[MECHANISM_LIST] = (void *)mechanism_list;
    outer.entries[OPEN_SESSION] = (void *)open_session;
    outer.entries[LOGIN] = (void *)login;
    outer.entries[LOGOUT] = (void *)logout;
    outer.entries[SIGN_INIT] = (void *)sign_init;
    outer.entries[SIGN] = (void *)sign;
    *list = &outer;
    return 0;
}
