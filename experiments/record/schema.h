#pragma once

namespace longhaul {

// experiments/schema.sql, embedded at build time.
extern const char* const kSchemaSql;

// PRAGMA user_version of a database with this schema. A change of the schema raises it.
constexpr int kSchemaVersion = 2;

}  // namespace longhaul
