import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { isFinal } from "./api.ts";
import { router } from "./router.tsx";
import { applyTheme } from "./settings.ts";
import "./styles.css";

applyTheme();

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // The same request would get the same error answer, but a lost connection may come back.
      retry: (count, error) => !isFinal(error) && count < 30,
      retryDelay: (count) => Math.min(10_000, 500 * 2 ** count),
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

const root = document.getElementById("root");
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
