/* Holds some blocks of memory until its input ends. For any libc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    for (int i = 0; i < 1000; i++) {
        char *block = malloc(2000);
        if (!block) return 1;
        memset(block, 1, 2000);
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
