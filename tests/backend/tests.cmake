#One executable : the torch headers are dear, and precompiled once for all four.
longhaul_test(backend / work_test.cc backend /
              staging_test.cc LIBS longhaul::plugin_backend LABELS cpu)
    target_precompile_headers(backend_work_test PRIVATE ${PROJECT_SOURCE_DIR} / plugin / backend /
                              torch_headers.h)
