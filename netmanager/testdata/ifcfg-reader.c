/* Prints what NetworkManager's reader of ifcfg files understands, as a keyfile. It is built in the place of the reader's own test. */
#include "src/core/nm-default-daemon.h"

#include <stdio.h>

#include "libnm-core-intern/nm-core-internal.h"
#include "nm-keyfile.h"
#include "nm-test-utils-core.h"
#include "settings/plugins/ifcfg-rh/nms-ifcfg-rh-reader.h"

NMTST_DEFINE();

int
main(int argc, char **argv)
{
    nmtst_init_with_logging(&argc, &argv, "WARN", "ALL");
    g_log_set_always_fatal(G_LOG_LEVEL_ERROR); /* a warning is part of what is printed */
    for (int i = 1; i < argc; i++) {
        char         *unhandled  = NULL;
        GError       *error      = NULL;
        NMConnection *connection = nmtst_connection_from_file(argv[i], NULL, NULL, &unhandled, &error);
        GKeyFile     *file       = NULL;

        if (connection && nm_connection_normalize(connection, NULL, NULL, &error))
            file = nm_keyfile_write(connection, NM_KEYFILE_HANDLER_FLAGS_NONE, NULL, NULL, &error);
        if (!file || unhandled) {
            fprintf(stderr, "%s: %s\n", argv[i], error ? error->message : unhandled);
            return 1;
        }
        fputs(g_key_file_to_data(file, NULL, NULL), stdout);
    }
    return 0;
}
