// Holds the precompiled headers that other targets reuse (LonghaulTargets.cmake).
int main() {}
